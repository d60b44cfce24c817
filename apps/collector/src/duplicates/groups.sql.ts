import { type Kysely, sql } from 'kysely';
import type { Tables } from '../database.ts';
import { components, type Edge } from './components.ts';

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
 * Brings the groups up to date after the pairs of one listing have changed. Where pairs were only added,
 * the groups that they connect become one, and nobody else is looked at. Where some were removed, all
 * that hangs together with either side is walked over and grouped anew.
 * @param trx A transaction that holds the writing lock and has stored the pairs.
 */
export async function regroup(
  trx: Kysely<Tables>,
  change: { id: number; partners: readonly number[]; removed: readonly number[] },
): Promise<void> {
  const { id, partners, removed } = change;
  if (removed.length === 0 && partners.length > 0) await mergeGroups(trx, [id, ...partners]);
  else await groupAnew(trx, [id, ...removed]);
}

async function mergeGroups(trx: Kysely<Tables>, ids: readonly number[]): Promise<void> {
  const rows = await trx
    .selectFrom('property_listings')
    .select(['id', 'duplicate_group'])
    .where('id', 'in', ids)
    .execute();
  const groups = new Set(rows.map((row) => row.duplicate_group ?? row.id));
  const group = Math.min(...groups);
  await lockAndSet(
    trx,
    sql`select id, ${group}::bigint as new_group from property_listings
      where id = any(${[...ids]}::bigint[]) or duplicate_group = any(${[...groups]}::bigint[])`,
  );
}

async function groupAnew(trx: Kysely<Tables>, roots: readonly number[]): Promise<void> {
  const { rows } = await sql<{ id: number; edges: Edge[] }>`
    with recursive reached (id) as (
      select unnest(${[...roots]}::bigint[])
      union
      select next.id from reached cross join lateral (
        select high_id as id from duplicate_pairs where low_id = reached.id
        union all
        select low_id from duplicate_pairs where high_id = reached.id) as next)
    select id, (
      select coalesce(jsonb_agg(jsonb_build_array(low_id, high_id)), '[]')
      from duplicate_pairs where low_id = reached.id) as edges
    from reached`.execute(trx);
  const groups = components(
    rows.map((row) => row.id),
    rows.flatMap((row) => row.edges),
  );
  await lockAndSet(
    trx,
    sql`select * from unnest(${[...groups.keys()]}::bigint[], ${[...groups.values()]}::bigint[])
      as wanted (id, new_group)`,
  );
}

/**
 * Writes the groups of those that have another. Their rows are locked in the order of their ids, as all
 * do who lock several.
 */
async function lockAndSet(trx: Kysely<Tables>, wanted: ReturnType<typeof sql>): Promise<void> {
  await sql`
    with wanted as materialized (${wanted}),
    locked as materialized (
      select listing.id, wanted.new_group
      from property_listings as listing join wanted on wanted.id = listing.id
      where listing.duplicate_group is distinct from wanted.new_group
      order by listing.id for no key update of listing)
    update property_listings set duplicate_group = locked.new_group
    from locked where property_listings.id = locked.id`.execute(trx);
}
