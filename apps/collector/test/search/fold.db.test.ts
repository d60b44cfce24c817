import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { idsOf, modelOf, openSearch } from './harness.ts';

const { add, serve, db } = await openSearch();
const { post } = await serve({ model: modelOf({ світлиця: [1, 0, 0] }) });

type Item = { listing: { listing_id: number }; duplicates?: number[] };

const ok = async (kind: string, body: object) => {
  const answer = await post(kind, body);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body;
};

/** Makes listings one group of likely duplicates, as it is after they were compared. */
async function group(...ids: (number | undefined)[]): Promise<void> {
  const members = ids.filter((id) => id !== undefined);
  await db
    .updateTable('property_listings')
    .set({ duplicate_group: Math.min(...members) })
    .where('id', 'in', members)
    .execute();
}

const at = (degrees: number) => [
  Math.cos((degrees * Math.PI) / 180),
  Math.sin((degrees * Math.PI) / 180),
  0,
];

const [best, worse, alone, wordless, archived] = await add(
  { source_slug: 'fold', description: 'світлиця світлиця світлиця', embedding: at(10) },
  { source_slug: 'fold', description: 'світлиця', embedding: at(20) },
  { source_slug: 'fold', description: 'світлиця світлиця', embedding: at(30) },
  { source_slug: 'fold', description: 'без слова', embedding: at(5) },
  { source_slug: 'fold', description: 'світлиця', embedding: at(40), archived: true },
);
await group(best, worse, wordless, archived);
const request = { source_slug: 'fold', fold_duplicates: true };

test('of each group the best hit alone is shown, with the ids of the others', async () => {
  const { items, total } = await ok('fulltext', { query: 'світлиця', ...request });
  assert.deepEqual(idsOf({ items }), [best, alone]);
  assert.deepEqual(
    items.map(({ duplicates }: Item) => duplicates),
    [[worse, wordless], []],
  );
  assert.deepEqual(total, { value: 2, relation: 'eq' });
  const unfolded = await ok('fulltext', { query: 'світлиця', source_slug: 'fold' });
  assert.deepEqual(idsOf(unfolded), [best, alone, worse]);
  assert.ok(unfolded.items.every((item: Item) => !('duplicates' in item)));
});

test('archived members are named only where archived listings are asked for', async () => {
  const body = { query: 'світлиця', ...request, include_archived: true };
  assert.deepEqual((await ok('fulltext', body)).items[0].duplicates, [worse, wordless, archived]);
});

test('the nearest of a group stands for it, and the page is full all the same', async () => {
  const body = { embedding: [1, 0, 0], ...request };
  const { items } = await ok('similar', { ...body, limit: 2 });
  assert.deepEqual(idsOf({ items }), [wordless, alone]);
  assert.deepEqual(items[0].duplicates, [best, worse]);
});

test('the hybrid search folds what it has fused', async () => {
  const { items, total } = await ok('hybrid', { query: 'світлиця', ...request });
  assert.deepEqual(idsOf({ items }), [best, alone]);
  assert.equal(total.value, 2);
});

test('a cursor serves for the folded search or for the other, not for both', async () => {
  const { next_cursor: cursor } = await ok('fulltext', { query: 'світлиця', ...request, limit: 1 });
  const body = { query: 'світлиця', source_slug: 'fold', cursor };
  assert.equal((await post('fulltext', body)).status, 422);
  assert.equal((await post('fulltext', { ...body, fold_duplicates: true })).status, 200);
});

test('whatever the groups, pages have each once, while listings come in between', async () => {
  let run = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.record({ words: fc.integer({ min: 1, max: 3 }), group: fc.nat({ max: 4 }) }), {
        minLength: 1,
        maxLength: 14,
      }),
      fc.integer({ min: 1, max: 4 }),
      async (seeds, limit) => {
        const source_slug = `property-${(run += 1)}`;
        const ids = await add(
          ...seeds.map(({ words }) => ({ source_slug, description: 'горище '.repeat(words) })),
        );
        // Group 0 stands for none.
        const groups = Map.groupBy(ids, (_, index) => seeds[index]?.group ?? 0);
        for (const [number, members] of groups) if (number > 0) await group(...members);
        const pages: Item[] = [];
        let cursor: string | undefined;
        do {
          const body = { query: 'горище', source_slug, fold_duplicates: true, limit };
          const page = await ok('fulltext', { ...body, ...(cursor && { cursor }) });
          pages.push(...page.items);
          cursor = page.next_cursor ?? undefined;
          await add({ source_slug, description: 'горище '.repeat(4) });
        } while (cursor !== undefined);
        const told = pages.flatMap(({ listing, duplicates = [] }) => [
          listing.listing_id,
          ...duplicates,
        ]);
        assert.deepEqual(
          told.toSorted((a, b) => a - b),
          ids,
        );
        const alones = groups.get(0)?.length ?? 0;
        assert.equal(pages.length, alones + groups.size - (groups.has(0) ? 1 : 0));
      },
    ),
    { numRuns: 15 },
  );
});
