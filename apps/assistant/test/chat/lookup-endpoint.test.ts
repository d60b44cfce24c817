import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { lookupEndpoint } from '../../src/tools/lookup-endpoint.ts';
import { type ToolContext, ToolError } from '../../src/tools/tool.ts';

const folder = await mkdtemp(join(tmpdir(), 'lookup-endpoint-'));
after(() => rm(folder, { recursive: true }));

const RECORD = {
  id: 'ssh:git@web1:22',
  name: 'Forge',
  type: 'http',
  status: 'active',
  exposure: 'private',
  docs: 'docs/forge.md',
  last_reviewed: '2026-11-01',
  url: 'https://admin:hunter2@forge.example.test/?token=hunter2',
};

const context = { signal: new AbortController().signal } as ToolContext;

test('the model is told of an endpoint without its password, and cannot search for it', async () => {
  const file = join(folder, 'endpoints.json');
  await writeFile(file, JSON.stringify([RECORD]));
  const { run } = lookupEndpoint(file);
  const { data, summary } = await run({ words: 'forge ssh:git@web1' }, context);
  const url = 'https://***@forge.example.test/?token=***';
  assert.deepEqual(data, { total: 1, endpoints: [{ ...RECORD, url }] });
  assert.equal(summary, 'ssh:git@web1:22');
  assert.equal((await run({ words: 'hunter2' }, context)).summary, 'nothing found');
});

test('the model is given the first ten endpoints, and told how many there are', async () => {
  const file = join(folder, 'many.json');
  const records = Array.from({ length: 12 }, (_, nth) => ({ ...RECORD, id: `e${nth}`, url: '' }));
  await writeFile(file, JSON.stringify([{ ...RECORD, name: 'Other' }, ...records]));
  const { data, summary } = await lookupEndpoint(file).run({ words: 'FORGE e' }, context);
  assert.deepEqual(data, {
    total: 13,
    endpoints: [
      { ...RECORD, name: 'Other', url: 'https://***@forge.example.test/?token=***' },
      ...records.slice(0, 9),
    ],
  });
  assert.match(summary, /^ssh:git@web1:22, e0, .*, e8$/);
});

test('the model is told why nothing can be looked up', async () => {
  const invalid = join(folder, 'invalid.json');
  await writeFile(invalid, JSON.stringify([{ ...RECORD, exposure: 'everybody' }]));
  for (const [file, message] of [
    [undefined, /there is no inventory here: INVENTORY_FILE names none/],
    [join(folder, 'missing.json'), /cannot be read: INVENTORY_FILE must name it/],
    [invalid, /the inventory is not valid: .*invalid\.json:1:\d+: exposure must be one of/],
  ] as const) {
    await assert.rejects(lookupEndpoint(file).run({ words: 'forge' }, context), (error) => {
      assert.ok(error instanceof ToolError);
      assert.match(error.message, message);
      return true;
    });
  }
});
