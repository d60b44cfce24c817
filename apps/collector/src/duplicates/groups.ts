import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';

/** Pair of listings that are likely the same property. */
export type DuplicatePair = readonly [number, number];

/** Groups by listing ID; null for a listing without a group. */
type Groups = Map<number, number | null>;

/**
 * Maximum number of listings in a group. A larger group would slow every update, and a search without duplicates would
 * hide all its listings behind one.
 */
export const MAX_GROUP_SIZE = 500;

/**
 * Returns the groups that the pairs form. If a group would exceed `MAX_GROUP_SIZE`, only listings that already shared a
 * group stay together.
 * @param currentGroups Listings with their current groups.
 */
function computeGroups(
  currentGroups: Groups,
  pairs: readonly DuplicatePair[],
  separatePairs: readonly DuplicatePair[],
): Groups {
  const groups = findComponents(currentGroups.keys(), pairs, separatePairs);
  const idsByGroup = Map.groupBy(currentGroups.keys(), (id) => groups.get(id) ?? null);
  const oversizedIds = [...idsByGroup]
    .filter(([group, ids]) => group !== null && ids.length > MAX_GROUP_SIZE)
    .flatMap(([, ids]) => ids);
  if (oversizedIds.length === 0) return groups;
  const keptPairs = pairs.filter(([a, b]) => {
    const group = currentGroups.get(a) ?? null;
    return group !== null && group === currentGroups.get(b);
  });
  return new Map([...groups, ...findComponents(oversizedIds, keptPairs, separatePairs)]);
}

/**
 * Returns the connected components of the pairs. The group of a listing is the smallest ID in its component, or null
 * if the listing is alone.
 * @param pairs Pairs in the order in which they connect. A pair whose connection would join a separate pair is skipped.
 * @param separatePairs Pairs of listings that are never in one component.
 */
export function findComponents(
  ids: Iterable<number>,
  pairs: readonly DuplicatePair[],
  separatePairs: readonly DuplicatePair[] = [],
): Groups {
  const parents = new Map<number, number>();

  function findRoot(id: number): number {
    let root = id;
    for (let parent = parents.get(root); parent !== undefined; parent = parents.get(root)) {
      root = parent;
    }
    for (let node = id; node !== root;) {
      const parent = parents.get(node) ?? root;
      parents.set(node, root);
      node = parent;
    }
    return root;
  }

  const joinedIds = new Set<number>();
  for (const [a, b] of pairs) {
    const roots = [findRoot(a), findRoot(b)];
    const [lowRoot, highRoot] = [Math.min(...roots), Math.max(...roots)];
    const isSeparate = separatePairs.some((pair) => {
      const pairRoots = new Set(pair.map(findRoot));
      return pairRoots.has(lowRoot) && pairRoots.has(highRoot);
    });
    if (lowRoot === highRoot || isSeparate) continue;
    parents.set(highRoot, lowRoot);
    joinedIds.add(a).add(b);
  }
  return new Map([...ids].map((id) => [id, joinedIds.has(id) ? findRoot(id) : null]));
}

/**
 * Key of the advisory lock for changes to pairs and groups, "dupl" in ASCII. Groups may span cities, so one lock covers
 * all. The trigger that handles deleted listings acquires the lock too.
 */
const GROUPS_LOCK_KEY = 0x6475706c;

/** Timeout for row locks. It is shorter than PostgreSQL's deadlock timeout, so that a deadlock never cancels a job. */
const LOCK_TIMEOUT_MS = 300;

/** Acquires the shared lock until the transaction ends: others may read groups but not change them. */
export async function lockGroupsForReading(trx: Kysely<Tables>): Promise<void> {
  await sql`select pg_advisory_xact_lock_shared(${GROUPS_LOCK_KEY})`.execute(trx);
}

/**
 * Acquires the exclusive lock on pairs and groups until the transaction ends. Then sets a short timeout for row locks,
 * so that the transaction fails instead of blocking jobs.
 */
export async function lockGroupsForWriting(trx: Kysely<Tables>): Promise<void> {
  await sql`select pg_advisory_xact_lock(${GROUPS_LOCK_KEY})`.execute(trx);
  await sql`select set_config('lock_timeout', ${String(LOCK_TIMEOUT_MS)}, true)`.execute(trx);
}

/**
 * Updates the groups of listings whose pairs have changed, and of the members of their current groups.
 * @param trx Transaction that holds the write lock and has stored the pairs.
 */
export async function updateGroups(trx: Kysely<Tables>, ids: readonly number[]): Promise<void> {
  const connectedIds = [...(await loadGroups(trx, ids)).keys()];
  const separatePairs = await listSeparatePairs(trx, connectedIds);
  // A group may take a listing again after the one that it is separate from has left.
  const currentGroups = await loadGroups(trx, [...ids, ...separatePairs.flat()]);
  const members = [...currentGroups.keys()];
  const { rows } = await sql<{ low: number; high: number }>`
    select low_id as low, high_id as high from duplicate_pairs
    where low_id = any(${members}::bigint[]) and high_id = any(${members}::bigint[])
    order by score desc, low_id, high_id`.execute(trx);
  const pairs = rows.map(({ low, high }): DuplicatePair => [low, high]);
  await storeGroups(
    trx,
    computeGroups(currentGroups, pairs, await listSeparatePairs(trx, members)),
  );
}

/** Returns the pairs of any of the listings that a person has judged to be different properties. */
async function listSeparatePairs(
  trx: Kysely<Tables>,
  ids: readonly number[],
): Promise<DuplicatePair[]> {
  const { rows } = await sql<{ low: number; high: number }>`
    select low_id as low, high_id as high from duplicate_verdicts
    where verdict = 'different'
      and (low_id = any(${[...ids]}::bigint[]) or high_id = any(${[...ids]}::bigint[]))`.execute(
    trx,
  );
  return rows.map(({ low, high }) => [low, high]);
}

/** Returns the groups of the listings and of all members of their groups. */
async function loadGroups(trx: Kysely<Tables>, ids: readonly number[]): Promise<Groups> {
  const { rows } = await sql<{ id: number; group: number | null }>`
    with listed as materialized (
      select id, duplicate_group from property_listings where id = any(${[...ids]}::bigint[]))
    select id, duplicate_group as group from listed
    union
    select id, duplicate_group from property_listings
    where duplicate_group in (select duplicate_group from listed)`.execute(trx);
  return new Map(rows.map(({ id, group }) => [id, group]));
}

/** Stores changed groups. Locks the rows in ID order to avoid deadlocks. */
async function storeGroups(trx: Kysely<Tables>, groups: Groups): Promise<void> {
  await sql`
    with computed as materialized (
      select * from unnest(${[...groups.keys()]}::bigint[], ${[...groups.values()]}::bigint[])
        as computed (id, new_group)),
    locked as materialized (
      select listing.id, computed.new_group
      from property_listings as listing join computed on computed.id = listing.id
      where listing.duplicate_group is distinct from computed.new_group
      order by listing.id for no key update of listing)
    update property_listings set duplicate_group = locked.new_group
    from locked where property_listings.id = locked.id`.execute(trx);
}
