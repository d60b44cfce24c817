import assert from 'node:assert/strict';
import { test } from 'node:test';
import type pg from 'pg';
import { applyAtOnce } from '../src/apply-migration.ts';
import type { Migration } from '../src/migration-files.ts';

const migration: Migration = {
  name: '0001_things.sql',
  sql: 'create table things (id int)',
  checksum: '',
  concurrently: false,
};

/** A connection that breaks over a statement. */
function brokenOver(broken: string): pg.PoolClient {
  const query = async (text: string | { text: string }) => {
    if ((typeof text === 'string' ? text : text.text) === broken) throw new Error('It broke');
    return { rows: [] };
  };
  return { query } as unknown as pg.PoolClient;
}

for (const [broken, told] of [
  [migration.sql, /0001_things\.sql failed and changed nothing: It broke/],
  ['commit', /0001_things\.sql may have failed, and the next start finds out: It broke/],
] as const) {
  test(`what is told of a connection that breaks over "${broken}" is true`, async () => {
    const applied = applyAtOnce(brokenOver(broken), 'test', migration, 1000);
    await assert.rejects(applied, { code: 'MIGRATION_FAILED', message: told });
  });
}
