import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';

/** A pair of listings that are likely the same property. */
export type DuplicatePair = readonly [number, number];

/**
 * The most listings of a group. A thousand offers with the same words and facts would slow each update of the group, and
 * a folded search would hide all of them behind one.
 */
export const MAX_GROUP_SIZE = 500;

/**
 * Returns the groups that pairs make of listings, at most `MAX_GROUP_SIZE` in each: where more are connected, those that were
 * in one group before stay together.
 * @param members The listings with their present groups.
 */
function computeGroups(
  members: ReadonlyMap<number, number | null>,
  edges: readonly DuplicatePair[],
): Map<number, number | null> {
  const groups = findComponents(members.keys(), edges);
  const sizes = Map.groupBy(groups.values(), (group) => group);
  const isTooLarge = (id: number) => {
    const group = groups.get(id) ?? null;
    return group !== null && (sizes.get(group)?.length ?? 0) > MAX_GROUP_SIZE;
  };
  const large = [...members.keys()].filter(isTooLarge);
  if (large.length === 0) return groups;
  const kept = edges.filter(([one, other]) => {
    const group = members.get(one) ?? null;
    return group !== null && group === members.get(other);
  });
  const divided = findComponents(large, kept);
  return new Map(
    [...groups].map(([id, group]) => [id, divided.has(id) ? (divided.get(id) ?? null) : group]),
  );
}

/**
 * Returns the unbounded groups of pairs: a listing's group is the smallest id that it is connected with, directly or
 * not. One without a pair has none.
 */
export function findComponents(
  ids: Iterable<number>,
  edges: readonly DuplicatePair[],
): Map<number, number | null> {
  const parents = new Map<number, number>();

  function rootOf(id: number): number {
    let root = id;
    for (let above = parents.get(root); above !== undefined; above = parents.get(root))
      root = above;
    // Path compression, so that a long chain is walked once.
    for (let step = id; step !== root;) {
      const above = parents.get(step) ?? root;
      parents.set(step, root);
      step = above;
    }
    return root;
  }

  for (const [one, other] of edges) {
    const [low, high] = [rootOf(one), rootOf(other)].toSorted((a, b) => a - b);
    if (low !== undefined && high !== undefined && low !== high) parents.set(high, low);
  }
  const paired = new Set(edges.flat());
  return new Map([...ids].map((id) => [id, paired.has(id) ? rootOf(id) : null]));
}

/**
 * The advisory lock for changes of pairs and groups: a group may span cities, so nothing smaller can be locked. "dupl" in
 * ASCII; the trigger of deleted listings takes it too.
 */
const GROUPS_LOCK = 0x6475706c;

/** Shorter than PostgreSQL's deadlock check, of which a job must not become the victim. */
const LOCK_TIMEOUT_MS = 300;

/** Excludes changes of groups until the transaction ends; others may read at the same time. */
export async function lockGroupsForReading(trx: Kysely<Tables>): Promise<void> {
  await sql`select pg_advisory_xact_lock_shared(${GROUPS_LOCK})`.execute(trx);
}

/**
 * Makes this transaction the only one that changes or reads pairs and groups. From then on it waits only a moment for
 * rows that jobs are writing, then fails and is repeated later.
 */
export async function lockGroupsForWriting(trx: Kysely<Tables>): Promise<void> {
  await sql`select pg_advisory_xact_lock(${GROUPS_LOCK})`.execute(trx);
  await sql`select set_config('lock_timeout', ${String(LOCK_TIMEOUT_MS)}, true)`.execute(trx);
}

/**
 * Updates the groups after a change of one listing's pairs: all members of its group, of its partners' groups and of its
 * former partners' groups are grouped again. They include all connected listings.
 * @param trx A transaction that holds the lock for writing and has stored the pairs.
 */
export async function updateGroups(
  trx: Kysely<Tables>,
  change: { id: number; partners: readonly number[]; removed: readonly number[] },
): Promise<void> {
  const { id, partners, removed } = change;
  const members = await listMembers(trx, [id, ...partners, ...removed]);
  const { rows: edges } = await sql<{ low: number; high: number }>`
    select low_id as low, high_id as high from duplicate_pairs
    where low_id = any(${[...members.keys()]}::bigint[])
      and high_id = any(${[...members.keys()]}::bigint[])`.execute(trx);
  const groups = computeGroups(
    members,
    edges.map(({ low, high }) => [low, high]),
  );
  await storeGroups(trx, groups);
}

/** The listings and all members of their groups, with their groups. */
async function listMembers(
  trx: Kysely<Tables>,
  ids: readonly number[],
): Promise<Map<number, number | null>> {
  const { rows } = await sql<{ id: number; group: number | null }>`
    with own as materialized (
      select id, duplicate_group from property_listings where id = any(${[...ids]}::bigint[]))
    select id, duplicate_group as group from own
    union
    select id, duplicate_group from property_listings
    where duplicate_group in (select duplicate_group from own)`.execute(trx);
  return new Map(rows.map(({ id, group }) => [id, group]));
}

/** Writes changed groups. The rows are locked in the order of their ids, as everywhere. */
async function storeGroups(
  trx: Kysely<Tables>,
  groups: ReadonlyMap<number, number | null>,
): Promise<void> {
  await sql`
    with wanted as materialized (
      select * from unnest(${[...groups.keys()]}::bigint[], ${[...groups.values()]}::bigint[])
        as wanted (id, new_group)),
    locked as materialized (
      select listing.id, wanted.new_group
      from property_listings as listing join wanted on wanted.id = listing.id
      where listing.duplicate_group is distinct from wanted.new_group
      order by listing.id for no key update of listing)
    update property_listings set duplicate_group = locked.new_group
    from locked where property_listings.id = locked.id`.execute(trx);
}
