import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { atEnd, until } from '@oselya/testing';
import { sql } from 'kysely';
import { mapParallel } from '../../src/async/concurrency.ts';
import { PayloadSchema } from '../../src/ingest/payload.ts';
import {
  fulltextSearchRequestSchema,
  createSimilarSearchRequestSchema,
} from '../../src/search/schemas.ts';
import { startCollector } from '../support/collector.ts';
import {
  DIMENSIONS,
  openDatabase,
  watchResources,
  untilResourcesAreFree,
  payloadOf,
} from '../support/pipeline.ts';
import { countRaws, untilEnded } from './judge.ts';
import { startHostileImages } from './hostile-images.ts';
import { hostileBodies } from './hostile-values.ts';
import { repetitions } from '../support/soak.ts';

const database = await openDatabase();
const { db } = database;
const folder = await mkdtemp(join(tmpdir(), 'oselya-hostile-'));
atEnd(() => rm(folder, { recursive: true }));

const PAYLOADS = repetitions({ soak: 10_000, ci: 1000 });
const SEARCHES = repetitions({ soak: 1000, ci: 150 });
const IMAGE_CONCURRENCY = 32;
const SEED = 20_261_121;
/** How many wrong answers a failure shows. */
const SHOWN = 5;
/** The bound for the rest of the queue after the last request. */
const PATIENCE_MS = 300_000;
const REJECTIONS = [400, 413, 422];

/** The share of payloads with an image at the hostile host. */
const IMAGE_SHARE = 1 / 3;
const host = await startHostileImages();

const collector = await startCollector(database, {
  DATA_DIR: folder,
  SSRF_ALLOW: host.address,
  COLLECTOR_INGEST_PER_MINUTE: '0',
  COLLECTOR_FULLTEXT_PER_MINUTE: '0',
  COLLECTOR_WORKERS: '8',
});

type Answer = Awaited<ReturnType<typeof collector.post>>;

/** Sends bodies and counts the responses by status: each is a success or a problem. */
async function sendAll(
  path: string,
  bodies: readonly string[],
  { success, rejections = REJECTIONS }: { success: number; rejections?: readonly number[] },
  onSuccess: (answer: Answer) => void = () => undefined,
): Promise<Map<number, number>> {
  const counts = new Map<number, number>();
  const wrong: string[] = [];
  await mapParallel(bodies, IMAGE_CONCURRENCY, async (body) => {
    const answer = await collector.post(path, body);
    counts.set(answer.status, (counts.get(answer.status) ?? 0) + 1);
    if (answer.status === success) onSuccess(answer);
    else if (!rejections.includes(answer.status) || !isProblem(answer)) {
      wrong.push(`${answer.status} ${answer.text.slice(0, 300)} for ${body.slice(0, 500)}`);
    }
  });
  assert.deepEqual(wrong.slice(0, SHOWN), [], `${wrong.length} wrong answers`);
  return counts;
}

function isProblem({ status, headers, json }: Answer): boolean {
  const { status: bodyStatus, code, detail } = json<Record<string, unknown>>();
  return (
    headers.get('content-type')?.startsWith('application/problem+json') === true &&
    bodyStatus === status &&
    typeof code === 'string' &&
    typeof detail === 'string'
  );
}

const some = <Item>(random: () => number, ...items: readonly Item[]) =>
  items[Math.floor(random() * items.length)];

/** Flats of many sizes, since equal sizes make the duplicate search slow. */
const flat = (random: () => number) =>
  `Продам квартиру у Львові, ${Math.floor(20 + random() * 400)} м².`;

/** Few listings, so that their payloads meet. */
const goodPayload = (random: () => number) => ({
  source_slug: some(random, 'hostile', 'h-2'),
  external_id: String(Math.floor(random() * 500)),
  description: some(random, flat(random), 'Ремонтуємо телефони.'),
  title: some(random, 'Квартира', 'Дім'),
  price: Math.floor(random() * 100_000),
  currency: 'USD',
  ...(random() < IMAGE_SHARE ? { image_urls: [host.addressOf(random)] } : {}),
});

/** Checks the images: unavailable ones are recorded, and only valid ones are stored. */
async function judgeImages(): Promise<string> {
  const rows = await db
    .selectFrom('listing_images')
    .select(['url', 'sha256', 'error'])
    .where('url', 'like', `${host.url}%`)
    .execute();
  const wrong = rows.filter(
    ({ url, sha256, error }) =>
      (sha256 === null) === (error === null) || (sha256 !== null) !== host.isGood(url ?? ''),
  );
  assert.deepEqual(wrong.slice(0, SHOWN), []);
  const had = rows.filter(({ sha256 }) => sha256 !== null).length;
  assert.ok(had > 0 && had < rows.length / 2);
  return `${rows.length} images of ${host.asked.size} behaviours, ${had} stored`;
}

/** Waits until the search for duplicates is done. */
async function untilDuplicatesAreFound(): Promise<void> {
  const left = db.selectFrom('duplicate_marks').select('id').limit(1);
  await until(
    'the duplicates to be found',
    async () => (await left.executeTakeFirst()) === undefined,
    PATIENCE_MS,
  );
}

const kind = database.engine === 'postgres' ? 'PostgreSQL' : 'the embedded database';

test(`Each of ${PAYLOADS} hostile payloads on ${kind} is rejected or ends in one valid state`, async (context) => {
  const bodies = hostileBodies(PAYLOADS, { seed: SEED, good: goodPayload, schema: PayloadSchema });
  // The first request opens resources that stay.
  const warm = JSON.stringify(payloadOf({ image_urls: [`${host.url}/0/0`] }));
  const accepted: number[] = [];
  const note = (answer: Answer) => void accepted.push(answer.json<{ raw_id: number }>().raw_id);
  await sendAll('/api/v1/ingest', [warm], { success: 202 }, note);
  await untilEnded(db, PATIENCE_MS);
  await untilDuplicatesAreFound();
  const untilNoMoreIsOpen = await watchResources({ database, dataDir: folder, host });
  const answers = await sendAll('/api/v1/ingest', bodies, { success: 202 }, note);
  await untilEnded(db, PATIENCE_MS);
  const counts = await countRaws(db, { ids: accepted });
  context.diagnostic(
    `answers ${JSON.stringify(Object.fromEntries(answers))}, ${JSON.stringify(counts)}`,
  );
  const failed = await db
    .selectFrom('raw_data')
    .select(['error', 'payload'])
    .where('status', '=', 'failed')
    .limit(SHOWN)
    .execute();
  assert.deepEqual(failed, []);
  const { invalid, completed, named } = counts;
  assert.deepEqual(counts, {
    stored: accepted.length,
    known: accepted.length,
    unfinished: 0,
    completed: accepted.length - invalid,
    invalid,
    failed: 0,
    held: 0,
    listings: named,
    current: named,
    named,
  });
  assert.equal(new Set(accepted).size, accepted.length);
  const { withImage } = await db
    .selectFrom('raw_data')
    .select((eb) => eb.fn.countAll<number>().as('withImage'))
    .where(sql`payload ->> 'image_urls'`, 'like', `%${host.url}%`)
    .executeTakeFirstOrThrow();
  assert.ok(withImage > accepted.length / 4, `${withImage} of ${accepted.length} have an image`);
  context.diagnostic(`${withImage} accepted with an image: ${await judgeImages()}`);
  assert.ok(invalid > 0 && completed > PAYLOADS / 20, 'enough got through to say something');
  assert.ok((answers.get(422) ?? 0) > PAYLOADS / 10 && (answers.get(400) ?? 0) > 0);
  await untilDuplicatesAreFound();
  await untilResourcesAreFree({ database, servers: [host], folder });
  await untilNoMoreIsOpen();
});

const goodSearch = (random: () => number) => ({
  query: some(random, 'квартира', 'квартира Львів', 'дім'),
  limit: some(random, 1, 5),
  highlight: random() < 0.5,
  fold_duplicates: random() < 0.5,
});
const goodSimilar = (random: () => number) => ({ query: some(random, 'flat', 'дім'), limit: 3 });

for (const [search, good, schema] of [
  ['fulltext', goodSearch, fulltextSearchRequestSchema],
  ['hybrid', goodSearch, fulltextSearchRequestSchema],
  ['similar', goodSimilar, createSimilarSearchRequestSchema(DIMENSIONS)],
] as const) {
  test(`${SEARCHES} hostile ${search} searches on ${kind} are answered or rejected`, async (context) => {
    const bodies = hostileBodies(SEARCHES, { seed: SEED, good, schema });
    const answers = await sendAll(`/api/v1/search/${search}`, bodies, {
      success: 200,
      // The listing is unknown or has no embedding.
      rejections: search === 'similar' ? [...REJECTIONS, 404, 409] : REJECTIONS,
    });
    context.diagnostic(`answers ${JSON.stringify(Object.fromEntries(answers))}`);
    assert.ok((answers.get(200) ?? 0) > SEARCHES / 10 && (answers.get(422) ?? 0) > SEARCHES / 10);
    await untilResourcesAreFree({ database, folder });
  });
}

test('A cursor with a changed byte is rejected or returns a page', async () => {
  const search = { query: 'квартира', limit: 1 };
  const first = await collector.post('/api/v1/search/fulltext', search);
  const { next_cursor: cursor } = first.json<{ next_cursor: string | null }>();
  assert.ok(cursor !== null);
  const members = JSON.parse(Buffer.from(cursor, 'base64url').toString()) as object;
  const cursors = [
    ...Array.from(cursor, (letter, at) => {
      const other = letter === 'A' ? 'B' : 'A';
      return cursor.slice(0, at) + other + cursor.slice(at + 1);
    }),
    ...Object.keys(members).flatMap((name) =>
      [-1, 4e10, 1e38, 1e39, 1e-46, 2 ** 53 - 1, 2 ** 53, 1.5, null, 'x', {}].map((value) =>
        Buffer.from(JSON.stringify({ ...members, [name]: value })).toString('base64url'),
      ),
    ),
  ];
  const bodies = cursors.map((changed) => JSON.stringify({ ...search, cursor: changed }));
  await sendAll('/api/v1/search/fulltext', bodies, { success: 200 });
});
