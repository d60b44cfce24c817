import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { createApiKeyStore, start, type Tables } from '@oselya/collector';
import { atEnd } from '@oselya/testing';
import { openTestDatabase } from '@oselya/testing/database';
import { createLogger } from '@oselya/kit';
import { oselya } from './support/oselya.ts';

// The command against a collector as it is: what the one sends and reads is what the other takes and answers.

const folder = mkdtempSync(join(tmpdir(), 'oselya-search-'));
after(() => rmSync(folder, { recursive: true }));
const database = await openTestDatabase<Tables>();
const { db } = database;
const collector = await start(
  {
    DATA_DIR: folder,
    COLLECTOR_PORT: '0',
    COLLECTOR_AUTH: 'required',
    COLLECTOR_WORKER: 'false',
    EMBEDDING_DIMENSIONS: '64',
    MIN_FREE_DISK_MB: '0',
  },
  { database, log: createLogger({ level: 'silent', service: 'test' }) },
);
atEnd(() => collector.close());

const keys = createApiKeyStore({ db });
const { key } = await keys.create({ name: 'test', scopes: ['ingest', 'search'] });
const env = { COLLECTOR_URL: collector.url, COLLECTOR_API_KEY: key };

const TEXTS = {
  flat: 'Продам двокімнатну квартиру у Львові, 54 м², з балконом. Ціна 62 000 дол.',
  house: 'Продам цегляний будинок під Києвом, 120 м², з ділянкою та гаражем. Ціна 90 000 дол.',
  office: "Здам офіс у Харкові, 80 м², п'ятий поверх. 20 000 грн на місяць.",
};

// With pictures, none here, a payload is processed before it is answered: that needs no worker to wait for.
for (const [name, description] of Object.entries(TEXTS)) {
  const form = new FormData();
  form.set(
    'metadata',
    JSON.stringify({ source_slug: 'doshka', external_id: name, title: name, description }),
  );
  const response = await fetch(`${collector.url}/api/v1/ingest/with-images`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body: form,
  });
  assert.equal(response.status, 200, await response.text());
}

async function search(...args: string[]): Promise<string> {
  const { status, stdout, stderr } = await oselya(['search', ...args], env);
  assert.deepEqual([status, stderr], [0, '']);
  return stdout;
}

test('a search by words finds listings with all of them', async () => {
  assert.match(
    await search('КВАРТИРУ', 'балконом'),
    /^#\d+ +flat\n +62 000 USD · Львів · 2 rooms · 54 m² · rank 0\.\d+\n1 found\n$/,
  );
  assert.match(await search('п’ятий'), /^#\d+ +office\n.*\n1 found\n$/);
  assert.equal(await search('квартиру гаражем'), '0 found\n');
  assert.match(await search('продам', '--limit', '1'), /^#.*\n.*\n2 found, 1 shown\n$/);
});

test('a search by meaning returns the nearest listings first', async () => {
  const found = await search('--similar', 'будинок з гаражем та ділянкою', '--limit', '2');
  assert.match(found, /^#\d+ +house\n.* · distance 0\.\d+\n#\d+ .*\n.*\nthe 2 nearest\n$/);
});

test('--json prints the answer of the API', async () => {
  const answer = JSON.parse(await search('квартиру', '--json')) as {
    items: { listing: { external_id: string; description: string } }[];
    total: object;
    next_cursor: null;
  };
  const [item, ...others] = answer.items;
  assert.deepEqual(
    [item?.listing.external_id, item?.listing.description, others],
    ['flat', TEXTS.flat, []],
  );
  assert.deepEqual([answer.total, answer.next_cursor], [{ value: 1, relation: 'eq' }, null]);
});

test('a rejected search is one line', async () => {
  for (const [args, more, said] of [
    [['квартира'], { COLLECTOR_API_KEY: 'oselya_1_x' }, /\(401\).*set COLLECTOR_API_KEY/],
    [['д'.repeat(600)], {}, /\(422\): .*query .*512/],
  ] as const) {
    const { status, stdout, stderr } = await oselya(['search', ...args], { ...env, ...more });
    assert.deepEqual([status, stdout, stderr.trim().split('\n').length], [1, '', 1], stderr);
    assert.match(stderr, said);
  }
});
