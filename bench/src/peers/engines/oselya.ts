import { readdir, readFile } from 'node:fs/promises';
import pg from 'pg';
import { startStack } from '../../search/stack.ts';
import { type Document, NEW_PREFIX } from '../documents.ts';
import { connectHttp, type Engine, type Hit } from '../engine.ts';
import type { Question } from '../query.ts';

const PATHS: Record<Question['kind'], string> = {
  words: 'fulltext',
  filtered: 'fulltext',
  'by price': 'browse',
  vector: 'similar',
  facets: 'facets',
};

/** Oselya's collector on a database of listings. Its folder is the URL of the database, which has them already. */
export const engine: Engine = {
  kinds: ['words', 'filtered', 'by price', 'vector', 'facets'],
  findVersion: () => Promise.resolve('this commit'),
  load: () => Promise.resolve(),
  async start(databaseUrl, signal) {
    const stack = await startStack(databaseUrl, signal);
    return {
      urls: [stack.url],
      processIds: async () => [stack.api.pid, ...(await findPostgresProcesses(databaseUrl))],
      measureDisk: async () => {
        const [row] = await runQuery<{ size: string }>(
          databaseUrl,
          'select pg_database_size(current_database()) as size',
        );
        return Number(row?.size);
      },
      insert: (document) => sendPayload(stack.url, document),
      async [Symbol.asyncDispose]() {
        await stack[Symbol.asyncDispose]();
        // The database may be kept for other runs.
        await runQuery(databaseUrl, `delete from raw_data where external_id like '${NEW_PREFIX}%'`);
        await runQuery(
          databaseUrl,
          `delete from property_listings where external_id like '${NEW_PREFIX}%'`,
        );
      },
    };
  },
  prepare({ kind, query, filters, vector, limit }) {
    const body = {
      ...filters,
      ...(query !== '' && { query }),
      ...(vector && { embedding: vector }),
      ...(kind === 'by price' && { sort: 'price_asc' }),
      ...(kind !== 'facets' && { limit }),
    };
    return { path: `/api/v1/search/${PATHS[kind]}`, body: JSON.stringify(body) };
  },
  connect: connectHttp,
  readHits(response) {
    const { items } = JSON.parse(String(response)) as {
      items: { listing: Hit & { listing_id: number } }[];
    };
    return items.map(({ listing }) => ({ ...listing, id: listing.listing_id }));
  },
};

/** Sends a listing through the whole pipeline, and waits for its end. The model answers at once. */
async function sendPayload(url: string, { external_id, listing }: Document): Promise<void> {
  const { title, description } = JSON.parse(listing) as { title: string; description: string };
  const payload = { source_slug: 'source-00', external_id, title, description };
  const form = new FormData();
  form.set('metadata', JSON.stringify(payload));
  const response = await fetch(`${url}/api/v1/ingest/with-images`, { method: 'POST', body: form });
  if (!response.ok)
    throw new Error(`A payload failed: ${response.status} ${await response.text()}`);
}

/** Returns the IDs of the server's processes; empty if it runs on another machine. */
async function findPostgresProcesses(databaseUrl: string): Promise<number[]> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  const { rows } = await client.query<{ id: number }>('select pg_backend_pid() as id');
  const parents = new Map<number, number>();
  for (const entry of await readdir('/proc')) {
    const stat = await readFile(`/proc/${entry}/stat`, 'utf8').catch(() => '');
    const [, id, parent] = /^(\d+) \(postgres\) \S (\d+)/.exec(stat) ?? [];
    if (id !== undefined) parents.set(Number(id), Number(parent));
  }
  await client.end();
  const postmaster = parents.get(rows[0]?.id ?? 0);
  return [...parents]
    .filter(([id, parent]) => [id, parent].includes(postmaster ?? 0))
    .map(([id]) => id);
}

async function runQuery<Row extends pg.QueryResultRow>(
  databaseUrl: string,
  statement: string,
): Promise<Row[]> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    return (await client.query<Row>(statement)).rows;
  } finally {
    await client.end();
  }
}
