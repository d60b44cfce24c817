import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { until } from '@oselya/testing';
import { startCollector } from './support/collector.ts';
import { openDatabase } from './support/pipeline.ts';

const database = await openDatabase();
const collector = await startCollector(database, { COLLECTOR_INGEST_PER_MINUTE: '0' });

test('Every sample listing passes the whole pipeline', async () => {
  const file = join(import.meta.dirname, '../../../samples/listings.jsonl');
  const lines = (await readFile(file, 'utf8')).split('\n').filter((line) => line.trim() !== '');
  const responses = await Promise.all(lines.map((line) => collector.post('/api/v1/ingest', line)));
  for (const { status, text } of responses) assert.equal(status, 202, text);

  type Queue = { counts: Record<string, number> };
  const counts = await until('an empty queue', async () => {
    const queue = (await collector.get('/api/v1/admin/queue')).json<Queue>();
    return !queue.counts['pending'] && !queue.counts['processing'] && queue.counts;
  });
  const { completed = 0, invalid = 0, failed = 0 } = counts;
  assert.equal(completed + invalid, lines.length);
  assert.equal(failed, 0);
  assert.ok(invalid > 0, 'some samples are no listings');

  const unembeddedListings = await database.db
    .selectFrom('property_listings')
    .select('id')
    .where('embedding', 'is', null)
    .execute();
  assert.deepEqual(unembeddedListings, [], 'every listing can be found by similarity');

  const response = await collector.post('/api/v1/search/fulltext', { query: 'квартира' });
  assert.ok(response.json<{ items: object[] }>().items.length > 0);
});
