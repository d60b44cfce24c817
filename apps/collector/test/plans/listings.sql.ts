import type pg from 'pg';
import { vacuum } from './vacuum.sql.ts';

/** All of them are read by `analyze`, so that the statistics, and with them the plans, are always the same. */
const LISTINGS = 20_000;

/** What takes longest to keep up to date row by row is built afterwards. */
const LATE_INDEXES = ['property_listings_search', 'property_listings_nearest'];

/**
 * Fills the tables with so many listings that indexes are worth it: every fifth is in Київ, one in 200 in
 * Луцьк; "квартира" is in most, "мансарда" in one of a hundred, each "назваN" in ten.
 * @param dimensions Of the embeddings.
 */
export async function fillListings(pool: pg.Pool, dimensions: number): Promise<void> {
  const indexes = await pool.query<{ definition: string }>(
    `select pg_get_indexdef(indexrelid) as definition from pg_index
     where indexrelid = any ($1::regclass[])`,
    [LATE_INDEXES],
  );
  await pool.query(`drop index ${LATE_INDEXES.join(', ')}`);
  await pool.query(
    `insert into sources (slug) select 'source-' || n from generate_series(0, 19) as n`,
  );
  await pool.query(
    `with listing as (
       select n, case when n % 5 = 0 then 'київ' when n % 200 = 1 then 'луцьк' else 'місто ' || n % 19 end as city,
         case when n % 10 < 8 then 'квартира' else 'будинок' end
           || case when n % 100 = 0 then ' мансарда' else '' end || ' назва' || n % 2000 as words
       from generate_series(1, $1::integer) as n)
     insert into property_listings (source_slug, external_id, url, description, search_text, city, city_key,
       deal_type, property_type, price, rooms, area_total, embedding, embedding_model, archived_at,
       duplicate_group)
     select 'source-' || n % 20, n, 'https://plan.test/' || n, words, words, city, city,
       case n % 2 when 0 then 'sale' else 'rent' end, 'apartment', 500 + n % 5000 * 20, 1 + n % 4, 30 + n % 90,
       (select array_agg(sin(n * 0.37 * axis + axis)) from generate_series(1, $2::integer) as axis)::vector,
       'plan', case when n % 50 = 7 then now() end, case when n % 40 = 3 then n - n % 80 + 3 end
     from listing`,
    [LISTINGS, dimensions],
  );
  for (const { definition } of indexes.rows) await pool.query(quickly(definition));
  await pool.query('analyze property_listings');
}

/** The same index with less care taken of which vectors are neighbours: no plan depends on that, and it takes longest. */
function quickly(definition: string): string {
  return definition.replace(/(?<=ef_construction=')\d+/, '32');
}

/** Has all changes of these listings be in their order, but for the last hundred. */
export async function fillChanges(pool: pg.Pool): Promise<void> {
  // As with the queue: what is known to be visible depends on the commit being on disk.
  await pool.query(`set local synchronous_commit = on;
    update listing_changes set position = nextval('listing_changes_positions')
    where id <= (select max(id) - 100 from listing_changes)`);
  await vacuum(pool, 'listing_changes');
}

/** Has the addresses of all these listings asked, a second after one another, and the payloads known that made them. */
export async function fillChecks(pool: pg.Pool): Promise<void> {
  await pool.query(`insert into listing_payloads (source_slug, external_id, raw_id)
    select source_slug, external_id, id from property_listings`);
  await pool.query(`insert into listing_checks (listing_id, checked_at)
    select id, now() - id * interval '1 second' from property_listings`);
  for (const table of ['property_listings', 'listing_payloads', 'listing_checks']) {
    await vacuum(pool, table);
  }
}
