import type pg from 'pg';
import { vacuum } from './vacuum.sql.ts';

/**
 * Fills the queue: 200 sources, one of which has half of 20,000 pending payloads, and 40 in progress; and twice as many
 * that have ended within four weeks, a few of them within the last five minutes, most of them completed, and half of
 * them with an idempotency key. Payloads have the size of real ones, since what reads all of them is dear for that.
 */
export async function fillQueue(pool: pg.Pool): Promise<void> {
  await pool.query(`insert into sources (slug)
    select 'queue-' || n from generate_series(0, 199) as n on conflict do nothing`);
  // A commit that is not on disk yet counts as not visible to all, and the plans depend on how much is. `analyze` is to
  // read all rows: so the statistics, and with them the plans, are always the same.
  await pool.query(`set local synchronous_commit = on;
    alter table raw_data alter column id set statistics 300;
    insert into raw_data (source_slug, external_id, payload, content_hash, status)
    select 'queue-' || case when n % 2 = 0 then 0 else n / 2 % 200 end, n::text,
      jsonb_build_object('description', repeat('x', 600)), '',
      case when n <= 40 then 'processing' else 'pending' end
    from generate_series(1, 20000) as n;
    insert into raw_data (source_slug, external_id, payload, content_hash, status, listing_id, idempotency_key,
      created_at, updated_at)
    select 'queue-' || n % 200, 'ended ' || n, jsonb_build_object('description', repeat('x', 600)), '',
      case when n % 100 = 0 then 'failed' when n % 20 = 1 then 'invalid' else 'completed' end,
      case when n % 20 > 1 then n % 20000 + 1 end, case when n % 2 = 0 then 'key-' || n end,
      ended_at - interval '10 seconds', ended_at
    from generate_series(1, 40000) as n
    cross join lateral (select now() - n * interval '1 minute' as ended_at) as time
    order by n desc`);
  await vacuum(pool, 'raw_data');
}
