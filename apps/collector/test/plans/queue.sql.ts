import type pg from 'pg';

/**
 * Fills the queue: 200 sources, one of which has half of 20,000 pending payloads, and 40 in progress. Payloads have
 * the size of real ones, since what reads all of them is dear for that.
 */
export async function fillQueue(pool: pg.Pool): Promise<void> {
  await pool.query(`insert into sources (slug)
    select 'queue-' || n from generate_series(0, 199) as n on conflict do nothing`);
  // A commit that is not on disk yet counts as not visible to all, and the plans depend on how much is.
  await pool.query(`set local synchronous_commit = on;
    insert into raw_data (source_slug, external_id, payload, content_hash, status)
    select 'queue-' || case when n % 2 = 0 then 0 else n / 2 % 200 end, n::text,
      jsonb_build_object('description', repeat('x', 600)), '',
      case when n <= 40 then 'processing' else 'pending' end
    from generate_series(1, 20000) as n`);
  await pool.query('vacuum analyze raw_data');
}
