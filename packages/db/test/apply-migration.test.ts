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

/** A connection on which a statement fails. */
function failingOver(failing: string, error: Error): pg.PoolClient {
  const query = async (text: string | { text: string }) => {
    if ((typeof text === 'string' ? text : text.text) === failing) throw error;
    return { rows: [] };
  };
  return { query } as unknown as pg.PoolClient;
}

/** What the server itself says. */
const said = (severity: string, code: string) =>
  Object.assign(new Error('It failed'), { severity, code });

const broke = Object.assign(new Error('It failed'), { code: 'EPIPE' });
const certain = /0001_things\.sql failed and changed nothing: It failed/;
const uncertain = /0001_things\.sql may have failed, and the next start finds out: It failed/;

for (const [what, statement, error, told] of [
  ['a connection that breaks over the file', migration.sql, broke, certain],
  ['a connection that breaks over the commit', 'commit', broke, uncertain],
  ['a server that is stopped over the commit', 'commit', said('FATAL', '57P01'), uncertain],
  ['a commit that the server refuses', 'commit', said('ERROR', '23503'), certain],
] as const) {
  test(`what is told of ${what} is true`, async () => {
    const applied = applyAtOnce(failingOver(statement, error), 'test', migration, 1000);
    await assert.rejects(applied, { code: 'MIGRATION_FAILED', message: told });
  });
}
