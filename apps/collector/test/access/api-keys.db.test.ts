import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createApiKeys } from '../../src/access/api-keys.ts';
import { openDatabase } from '../support/database.ts';

const { db } = await openDatabase();
const keys = createApiKeys({ db });

test('a key is given once, and only its hash is kept', async () => {
  const { key, ...made } = await keys.create({ name: 'scraper', scopes: ['ingest'] });
  assert.deepEqual(await keys.verify(key), made);
  const stored = await db.selectFrom('api_keys').selectAll().execute();
  assert.ok(!JSON.stringify(stored).includes(key));
  assert.equal(await keys.verify(`${key}x`), undefined);
  assert.equal(await keys.verify(''), undefined);
});

test('a revoked key ends at once, and stays in the list', async () => {
  const { id, key } = await keys.create({ name: 'old', scopes: ['admin'], sources: ['doshka'] });
  assert.deepEqual((await keys.verify(key))?.source_slugs, ['doshka']);
  assert.equal(await keys.revoke(id), true);
  assert.equal(await keys.verify(key), undefined);
  assert.equal(await keys.revoke(id), false, 'once');
  assert.equal(await keys.revoke('no such id'), false);
  const listed = (await keys.list()).find((one) => one.id === id);
  assert.ok(listed?.revoked_at instanceof Date);
});

test('the list tells when a key was last used', async () => {
  const { id, key } = await keys.create({ name: 'used', scopes: ['search'] });
  const used = async () => (await keys.list()).find((one) => one.id === id)?.last_used_at;
  assert.equal(await used(), null);
  await keys.verify(key);
  const first = await used();
  assert.ok(first instanceof Date);
  await keys.verify(key);
  assert.deepEqual(await used(), first, 'at most one write a minute');
});
