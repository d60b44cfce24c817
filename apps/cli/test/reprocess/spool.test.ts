import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { openSpool } from '../../src/reprocess/spool.ts';

const folder = mkdtempSync(join(tmpdir(), 'oselya-spool-'));
after(() => rmSync(folder, { recursive: true }));
process.env['TMPDIR'] = folder;

test('what waits comes in its order, also when more is read than a buffer holds', async () => {
  await using spool = await openSpool<{ nth: number; text: string }>();
  // Some of these end lines for some, and none may end a value.
  const ends = '\n\r\u0085\u2028\u2029';
  const values = Array.from({ length: 300 }, (_, nth) => ({
    nth,
    text: `ї${ends}${'🏠'.repeat(nth)}`,
  }));
  for (const value of values) await spool.add(value);
  assert.deepEqual(await Array.fromAsync(spool.values()), values);
});

test('a reader may stop early, and one that never reads has nothing to wait for', async () => {
  {
    await using spool = await openSpool<number>();
    for (let value = 0; value < 50_000; value += 1000) await spool.add(value);
    for await (const value of spool.values()) if (value === 2000) break;
    await using unread = await openSpool<number>();
    await unread.add(1);
  }
  assert.deepEqual(readdirSync(folder), []);
});

test('no file has a name from the beginning on, so that a killed process leaves none', async () => {
  await using spool = await openSpool<string>();
  await spool.add('+380 67 000 00 00');
  assert.deepEqual(readdirSync(folder), []);
});
