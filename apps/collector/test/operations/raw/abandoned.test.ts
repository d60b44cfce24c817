import assert from 'node:assert/strict';
import { test } from 'node:test';
import { offlineDatabase } from '@oselya/db';
import { createServer } from '@oselya/kit';
import type { Tables } from '../../../src/tables.ts';
import { rawRoutes } from '../../../src/operations/raw/routes.ts';
import { log } from '../../support/pipeline.ts';

const ROUTES = [
  { method: 'POST', path: '/admin/raw/retry', body: '{"status":"failed"}' },
  { method: 'DELETE', path: '/admin/raw-data?older_than_days=1' },
];

for (const { method, path, body } of ROUTES) {
  test(`${method} ${path} goes on no longer than somebody waits for it`, async () => {
    const begun = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    const untilAborted = async (signal: AbortSignal | undefined): Promise<number> => {
      signal?.addEventListener('abort', () => ended.resolve());
      begun.resolve();
      await ended.promise;
      return 0;
    };
    const app = await createServer({
      log,
      bodyLimit: 1024,
      openapi: { title: 'Test', description: '', version: '0' },
    });
    rawRoutes(app, {
      db: offlineDatabase<Tables>().db,
      retry: { one: () => Promise.resolve(), all: (_, signal) => untilAborted(signal) },
      cleanup: ({ signal }) => untilAborted(signal),
    });
    const url = await app.listen({ port: 0, host: '127.0.0.1' });
    const abort = new AbortController();
    const asked = fetch(`${url}${path}`, {
      method,
      signal: abort.signal,
      ...(body && { body, headers: { 'content-type': 'application/json' } }),
    });
    await begun.promise;
    abort.abort();
    await assert.rejects(asked, { name: 'AbortError' });
    await ended.promise;
    await app.close();
  });
}
