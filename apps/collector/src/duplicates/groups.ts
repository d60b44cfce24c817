import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';

/** Pair of listings that are likely the same property. */
export type DuplicatePair = readonly [number, number];

/**
 * Maximum number of listings in a group. A larger group would slow every update, and a search without duplicates would
 * hide all its listings behind one.
 */
export const MAX_GROUP_SIZE = 500;

/**
 * Returns the groups that the pairs form, with at most `MAX_GROUP_SIZE` listings each. If a group would be larger,
 * only listings that already shared a group stay together.
 * @param members Listings with their current groups.
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
 * Returns the connected components of the pairs. The group of a listing is the smallest ID in its component, or null
 * if the listing has no pair.
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
    // Path compression avoids walking a long chain again.
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
 * Advisory lock for changes of pairs and groups, "dupl" in ASCII. Groups may span cities, so one lock covers all. The
 * trigger of deleted listings acquires it too.
 */
const GROUPS_LOCK = 0x6475706c;

/** Shorter than PostgreSQL's deadlock timeout, so that a deadlock never cancels a job. */
const LOCK_TIMEOUT_MS = 300;

/** Acquires the shared lock until the transaction ends: others may read groups but not change them. */
export async function lockGroupsForReading(trx: Kysely<Tables>): Promise<void> {
  await sql`select pg_advisory_xact_lock_shared(${GROUPS_LOCK})`.execute(trx);
}

/**
 * Acquires the exclusive lock on pairs and groups until the transaction ends. Then sets a short timeout for row locks,
 * so that the transaction fails instead of blocking jobs.
 */
export async function lockGroupsForWriting(trx: Kysely<Tables>): Promise<void> {
  await sql`select pg_advisory_xact_lock(${GROUPS_LOCK})`.execute(trx);
  await sql`select set_config('lock_timeout', ${String(LOCK_TIMEOUT_MS)}, true)`.execute(trx);
}

/**
 * Updates the groups after the pairs of one listing have changed: the listing's own group and those of its current and
 * former partners.
 * @param trx Transaction that holds the write lock and has stored the pairs.
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

/** Returns the listings and all members of their groups, with their groups. */
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

/** Stores changed groups. Locks the rows in ID order to avoid deadlocks. */
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
