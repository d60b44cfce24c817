import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import { groupsOf } from './components.ts';

/**
 * One at a time changes pairs and groups: a group may reach over cities, so nothing smaller than all of
 * them could be locked. "dupl" in ASCII; the trigger of deleted listings takes it too.
 */
const GROUPS_LOCK = 0x6475706c;

/** Waits for nobody longer: PostgreSQL looks for deadlocks after a second, and a job must not be its victim. */
const LOCK_TIMEOUT_MS = 300;

/** Keeps whoever changes groups out until the transaction ends; others may look at the same time. */
export async function lockGroupsForReading(trx: Kysely<Tables>): Promise<void> {
  await sql`select pg_advisory_xact_lock_shared(${GROUPS_LOCK})`.execute(trx);
}

/**
 * Makes this transaction the only one that changes pairs and groups, or looks at them with the other lock.
 * From then on it waits for listings that jobs are writing only for a moment, and fails then: it is made
 * again later.
 */
export async function lockGroupsForWriting(trx: Kysely<Tables>): Promise<void> {
  await sql`select pg_advisory_xact_lock(${GROUPS_LOCK})`.execute(trx);
  await sql`select set_config('lock_timeout', ${String(LOCK_TIMEOUT_MS)}, true)`.execute(trx);
}

/**
 * Brings the groups up to date after the pairs of one listing have changed: it is grouped anew with all
 * that are in its group, in those of its partners, and in those of listings that are its partners no more.
 * Whoever hangs together over pairs is in one of these, so nobody else is looked at.
 * @param trx A transaction that holds the writing lock and has stored the pairs.
 * @param change.partners Those with which it is paired now, and `removed` those with which it was.
 */
export async function regroup(
  trx: Kysely<Tables>,
  change: { id: number; partners: readonly number[]; removed: readonly number[] },
): Promise<void> {
  const { id, partners, removed } = change;
  const members = await listMembers(trx, [id, ...partners, ...removed]);
  const { rows: edges } = await sql<{ low: number; high: number }>`
    select low_id as low, high_id as high from duplicate_pairs
    where low_id = any(${[...members.keys()]}::bigint[])
      and high_id = any(${[...members.keys()]}::bigint[])`.execute(trx);
  const groups = groupsOf(
    members,
    edges.map(({ low, high }) => [low, high]),
  );
  await lockAndSet(trx, groups);
}

/** Listings and all that are in their groups, each with the group that it is in. */
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

/**
 * Writes the groups of those that have another. Their rows are locked in the order of their ids, as all
 * do who lock several.
 */
async function lockAndSet(
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
