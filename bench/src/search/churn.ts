import pg from 'pg';
import { createRandom } from '../listings/random.ts';
import { createVectorGenerator } from '../listings/vector.ts';
import type { Context } from '../suite.ts';
import { measureRecall, type Recall } from './check.ts';
import { openExact } from './exact.ts';
import { DIMENSIONS, startStack } from './stack.ts';

/** Recall after changes to many listings, before or after a vacuum. */
export type ChurnResult = {
  state: 'changed' | 'vacuumed';
  /** Number of dead row versions, which the vector index still contains. */
  deadRows: number;
  /** Size of the vector index. */
  indexBytes: number;
  recalls: Recall[];
};

/** Number of listings per statement. */
const BATCH_SIZE = 500;
const SEED = 20_260_103;

/** Maximum number of listings in a database to vacuum, because a vacuum takes as long as building the vector index. */
const MAX_VACUUMED_LISTINGS = 100_000;

/**
 * Measures recall in a database copy after changing, archiving and deleting listings. Small databases are
 * measured again after a vacuum.
 */
export async function measureChurn(
  listings: number,
  databaseUrl: string,
  { databases, results, signal, logProgress }: Context,
  questions: number,
): Promise<ChurnResult[]> {
  await using copy = await databases.copyDatabase(databaseUrl);
  logProgress(`${listings} listings: changing, archiving and deleting some`);
  await churn(copy.url, signal);
  await using stack = await startStack(copy.url, signal);
  await using exact = await openExact(copy.url);
  const target = { url: stack.url, exact, dimensions: DIMENSIONS };
  const churnResults: ChurnResult[] = [];
  for (const state of ['changed', 'vacuumed'] as const) {
    if (state === 'vacuumed') {
      if (listings > MAX_VACUUMED_LISTINGS) break;
      await runQuery(copy.url, 'vacuum analyze property_listings');
    }
    const statistics = { state, ...(await readIndexStatistics(copy.url)) };
    const result = { ...statistics, recalls: await measureRecall(target, questions) };
    await results.keep('churn', { listings, ...result });
    churnResults.push(result);
  }
  return churnResults;
}

async function churn(databaseUrl: string, signal: AbortSignal): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  const vectorGenerator = createVectorGenerator(DIMENSIONS);
  try {
    // An automatic vacuum during the measurement would make the results ambiguous.
    await client.query('alter table property_listings set (autovacuum_enabled = off)');
    const { rows } = await client.query<{ id: string }>(
      'select id from property_listings where id % 10 = 3 order by id',
    );
    const ids = rows.map(({ id }) => Number(id));
    for (let start = 0; start < ids.length; start += BATCH_SIZE) {
      signal.throwIfAborted();
      const batch = ids.slice(start, start + BATCH_SIZE);
      await client.query(
        `update property_listings set price = price * 0.97, embedding = changed.vector::vector,
           updated_at = now()
         from unnest($1::bigint[], $2::text[]) as changed (id, vector)
         where property_listings.id = changed.id`,
        [batch, batch.map((id) => `[${vectorGenerator.next(createRandom(SEED, id)).join(',')}]`)],
      );
    }
    await client.query('update property_listings set archived_at = now() where id % 50 = 7');
    await client.query('delete from property_listings where id % 50 = 11');
    await client.query('analyze property_listings');
  } finally {
    await client.end();
  }
}

async function readIndexStatistics(url: string): Promise<{ deadRows: number; indexBytes: number }> {
  const [row] = await runQuery<{ deadRows: number; indexBytes: number }>(
    url,
    `select n_dead_tup::float8 as "deadRows",
       pg_relation_size('property_listings_nearest_halves')::float8 as "indexBytes"
     from pg_stat_user_tables where relid = 'property_listings'::regclass`,
  );
  if (row === undefined) throw new Error('The server has no statistics of property_listings');
  return row;
}

/** Runs a statement on a separate connection, because a session may delay its statistics until it ends. */
async function runQuery<Row extends pg.QueryResultRow>(
  url: string,
  statement: string,
): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Row>(statement)).rows;
  } finally {
    await client.end();
  }
}
