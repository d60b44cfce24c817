import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { findCandidates } from './candidates.sql.ts';
import { compare, type Comparison, THRESHOLD } from './compare.ts';
import type { Compared } from './compared.ts';
import { loadCompared } from './compared.sql.ts';
import { lockGroupsForReading, lockGroupsForWriting, regroup } from './groups.sql.ts';
import { type Marked, markPartners, removeMarks } from './marks.sql.ts';
import { findGroup, listPartners, storePairs } from './repository.ts';

/** How many duplicates one look gives a listing at most: the likeliest. */
const MAX_FOUND = 20;

/**
 * How many pairs one look compares again at most: others may have found more, where somebody offers one
 * thing a thousand times. Should the listing have changed, those look at it themselves.
 */
const MAX_KNOWN = 200;

/**
 * Looks for the duplicates of a listing, and brings its pairs and groups up to date.
 *
 * Most listings have none: a look at those writes nothing but that it was made, and any number of them go
 * on together. Where there are duplicates, or were, they are compared again with everybody else kept out.
 * So of two looks at the two sides of a pair one comes after the other, and sees what both sides are by
 * then; a side that changes later is marked again, and looked at again.
 * @throws What the database throws, a lock that it waited for too long among it; then nothing was changed,
 *   and the marks stay.
 */
export async function updatePairs(db: Kysely<Tables>, marked: Marked): Promise<void> {
  const { listingId: id, marks } = marked;
  const found = await db.transaction().execute(async (trx) => {
    await lockGroupsForReading(trx);
    const own = (await loadCompared(trx, [id])).get(id);
    const likeliest = own === undefined ? [] : await findLikely(trx, own);
    const isAlone = (await findGroup(trx, id)) === null && !(await listPartners(trx, id, 1)).length;
    if (likeliest.length > 0 || !isAlone) return likeliest;
    await removeMarks(trx, marks);
    return undefined;
  });
  if (found === undefined) return;

  await db.transaction().execute(async (trx) => {
    await lockGroupsForWriting(trx);
    const known = await listPartners(trx, id, MAX_KNOWN);
    const listings = await loadCompared(trx, [...new Set([id, ...found, ...known])]);
    const own = listings.get(id);
    listings.delete(id);
    const pairs = own === undefined ? new Map<number, Comparison>() : likely(own, listings);
    const removed = known.filter((one) => !pairs.has(one));
    await storePairs(trx, id, { pairs, removed });
    await regroup(trx, { id, partners: [...pairs.keys()], removed });
    if (removed.length > 0 && known.length === MAX_KNOWN) await markPartners(trx, id);
    await removeMarks(trx, marks);
  });
}

/** The likeliest duplicates among the candidates. */
async function findLikely(trx: Kysely<Tables>, own: Compared): Promise<number[]> {
  if (own.archived_at !== null) return [];
  const candidates = await loadCompared(trx, await findCandidates(trx, own));
  return [...likely(own, candidates)]
    .toSorted(([a, { score: one }], [b, { score: other }]) => other - one || a - b)
    .slice(0, MAX_FOUND)
    .map(([other]) => other);
}

/** Those of the listings that are likely the same property. What is archived is nobody's duplicate. */
function likely(own: Compared, others: ReadonlyMap<number, Compared>): Map<number, Comparison> {
  if (own.archived_at !== null) return new Map();
  const pairs = new Map<number, Comparison>();
  for (const [id, other] of others) {
    const comparison = other.archived_at === null ? compare(own, other) : undefined;
    if (comparison !== undefined && comparison.score >= THRESHOLD) pairs.set(id, comparison);
  }
  return pairs;
}
