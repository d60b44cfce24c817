import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { lookupEndpoint } from '../../src/tools/lookup-endpoint.ts';
import type { ToolContext } from '../../src/tools/tool.ts';

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
