import assert from 'node:assert/strict';
import { test } from 'node:test';
import { offlineDatabase } from '@oselya/db';
import { createLogger, createServer } from '@oselya/kit';
import { sql } from 'kysely';
import { registerUpkeep } from '../../src/upkeep.ts';
import type { Tables } from '../../src/tables.ts';
import { until } from '../helpers/until.ts';

test('it sweeps every ten minutes, and what fails once is tried again', async (context) => {
  context.mock.timers.enable({ apis: ['setInterval'] });
  const warnings: string[] = [];
  const log = createLogger({
    level: 'warn',
    service: 'test',
    destination: { write: (line) => void warnings.push(line) },
  });
  const openapi = { title: 'Nothing', description: '', version: '0' };
  const app = await createServer({ log, bodyLimit: 1024, openapi });
  const began: string[] = [];
  const { db } = offlineDatabase<Tables>();
  registerUpkeep(app, {
    db,
    log,
    sweeps: {
      failing() {
        began.push('failing');
        throw new Error('no answer');
      },
      working() {
        began.push('working');
        return sql`select 1`;
      },
    },
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  await until(() => began.length === 2);
  assert.match(warnings.join(''), /"what":"failing"/);
  context.mock.timers.tick(10 * 60 * 1000 - 1);
  await new Promise(setImmediate);
  assert.deepEqual(began, ['failing', 'working']);
  context.mock.timers.tick(1);
  await until(() => began.length === 4);
  assert.deepEqual(began.slice(2), ['failing', 'working']);
  assert.equal(warnings.length, 2);
  await app.close();
  context.mock.timers.tick(10 * 60 * 1000);
  await new Promise(setImmediate);
  assert.equal(began.length, 4);
});
