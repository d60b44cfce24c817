import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { atEnd, type TestDatabase } from '@oselya/db/testing';
import type { Tables } from '../../src/tables.ts';
import { type Shared, start } from '../../src/main.ts';
import { DIMENSIONS } from './database.ts';
import { log } from './pipeline.ts';
import { until } from './until.ts';

/**
 * A running collector on a test file's database, or without one on that of DATABASE_URL, with what tests do
 * to it; it ends with the file, or before.
 */
export async function startCollector(
  database: TestDatabase<Tables> | undefined,
  env: Record<string, string> = {},
  shared: Pick<Shared, 'disk'> = {},
) {
  const folder = await mkdtemp(join(tmpdir(), 'oselya-'));
  const running = await start(
    {
      DATA_DIR: folder,
      COLLECTOR_PORT: '0',
      EMBEDDING_DIMENSIONS: String(DIMENSIONS),
      MIN_FREE_DISK_MB: '0',
      ...env,
    },
    { ...shared, ...(database && { database }), log },
  );
  let closed = false;
  const close = async () => {
    if (closed) return;
    closed = true;
    await running.close();
    await rm(folder, { recursive: true, force: true });
  };
  atEnd(close);

  async function request(
    method: string,
    path: string,
    { body, headers = {} }: { body?: unknown; headers?: Record<string, string> } = {},
  ) {
    const response = await fetch(`${running.url}${path}`, {
      method,
      headers: body === undefined ? headers : { 'content-type': 'application/json', ...headers },
      ...(body === undefined
        ? {}
        : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return {
      status: response.status,
      headers: response.headers,
      text,
      /** The body, of the shape that the test expects and checks by using it. */
      // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- shorter than a cast in each test
      json: <Shape>() => JSON.parse(text) as Shape,
    };
  }

  return {
    url: running.url,
    close,
    [Symbol.asyncDispose]: close,
    get: (path: string, headers: Record<string, string> = {}) => request('GET', path, { headers }),
    post: (path: string, body?: unknown, headers: Record<string, string> = {}) =>
      request('POST', path, { body, headers }),
  };
}

type Collector = Pick<Awaited<ReturnType<typeof startCollector>>, 'get' | 'post'>;

/** A payload's record, as far as tests ask for it. */
export type Raw = {
  raw_id: number;
  status: string;
  listing_id: number;
  error: { code: string } | null;
  model_usage: { calls: number; input_tokens: number; output_tokens: number } | null;
};

/** Sends a payload and waits for its end. */
export async function processThrough(collector: Collector, payload: object): Promise<Raw> {
  const { raw_id: rawId } = (await collector.post('/api/v1/ingest', payload)).json<Raw>();
  return until(`raw record ${rawId}`, async () => {
    const raw = (await collector.get(`/api/v1/raw/${rawId}`)).json<Raw>();
    return raw.status !== 'pending' && raw.status !== 'processing' && raw;
  });
}
