import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import type { DatabaseSync } from 'node:sqlite';
import { errors } from 'oidc-provider';
import { type Artifacts, createArtifacts } from '../../src/store/artifacts.ts';
import { openDatabase } from '../../src/store/database.ts';

let now: number;
let database: DatabaseSync;
let artifacts: Artifacts;

beforeEach(() => {
  now = 1_000_000;
  database = openDatabase();
  artifacts = createArtifacts(database, () => now);
});

function countRows(): number {
  return Number(database.prepare('select count(*) as rows from artifacts').get()?.['rows']);
}

describe('an adapter', () => {
  test('gives back what was saved last, by model and id', async () => {
    const tokens = artifacts.adapterFor('RefreshToken');
    await tokens.upsert('a', { grantId: 'g' }, 60);
    await tokens.upsert('a', { grantId: 'g', accountId: 'u-1' }, 60);
    assert.deepEqual(await tokens.find('a'), { grantId: 'g', accountId: 'u-1' });
    assert.equal(await tokens.find('b'), undefined);
    assert.equal(await artifacts.adapterFor('AccessToken').find('a'), undefined);

    await tokens.destroy('a');
    assert.equal(await tokens.find('a'), undefined);
  });

  test('finds by uid and by user code', async () => {
    const sessions = artifacts.adapterFor('Session');
    await sessions.upsert('s', { uid: 'uid-1' }, 60);
    assert.deepEqual(await sessions.findByUid('uid-1'), { uid: 'uid-1' });
    assert.equal(await sessions.findByUid('uid-2'), undefined);
    const codes = artifacts.adapterFor('DeviceCode');
    await codes.upsert('d', { userCode: 'AB-CD' }, 60);
    assert.deepEqual(await codes.findByUserCode('AB-CD'), { userCode: 'AB-CD' });
  });

  test('consumes once; a second time revokes the grant', async () => {
    const tokens = artifacts.adapterFor('RefreshToken');
    await artifacts.adapterFor('Grant').upsert('g', {}, 60);
    await artifacts.adapterFor('AccessToken').upsert('t', { grantId: 'g' }, 60);
    await tokens.upsert('r', { grantId: 'g' }, 60);
    await tokens.upsert('other', { grantId: 'h' }, 60);

    await tokens.consume('r');
    assert.deepEqual(await tokens.find('r'), { grantId: 'g', consumed: now });
    await assert.rejects(async () => tokens.consume('r'), errors.InvalidGrant);
    assert.equal(countRows(), 1);
    assert.deepEqual(await tokens.find('other'), { grantId: 'h' });
  });

  test('refuses to consume what is gone', async () => {
    await assert.rejects(
      async () => artifacts.adapterFor('RefreshToken').consume('gone'),
      errors.InvalidGrant,
    );
  });

  test('revokes its own model by grant', async () => {
    const tokens = artifacts.adapterFor('RefreshToken');
    await tokens.upsert('a', { grantId: 'g' }, 60);
    await tokens.upsert('b', { grantId: 'g' }, 60);
    await tokens.upsert('c', { grantId: 'h' }, 60);
    await tokens.revokeByGrantId('g');
    assert.equal(countRows(), 1);
    assert.deepEqual(await tokens.find('c'), { grantId: 'h' });
  });
});

test('revoking an account deletes everything it owns and nothing else', async () => {
  for (const model of ['Grant', 'AuthorizationCode', 'AccessToken', 'RefreshToken']) {
    await artifacts.adapterFor(model).upsert('a', { accountId: 'u-1' }, 60);
  }
  await artifacts.adapterFor('Grant').upsert('b', { accountId: 'u-2' }, 60);
  await artifacts.adapterFor('Interaction').upsert('c', {}, 60);
  artifacts.revokeAccount('u-1');
  assert.equal(countRows(), 2);
});

test('revoking everybody deletes what accounts own, and leaves a choice that is open', async () => {
  for (const model of ['Grant', 'AuthorizationCode', 'AccessToken', 'RefreshToken', 'Session']) {
    await artifacts.adapterFor(model).upsert('a', { accountId: 'u-1' }, 60);
    await artifacts.adapterFor(model).upsert('b', { accountId: 'u-2' }, 60);
  }
  await artifacts.adapterFor('Interaction').upsert('c', { uid: 'c' }, 60);
  artifacts.revokeEverybody();
  assert.equal(countRows(), 1);
  assert.deepEqual(await artifacts.adapterFor('Interaction').find('c'), { uid: 'c' });
});

describe('expired rows', () => {
  test('are all deleted at the start', async () => {
    const tokens = artifacts.adapterFor('AccessToken');
    for (let i = 0; i < 1200; i += 1) await tokens.upsert(`t${i}`, {}, 10);
    await tokens.upsert('alive', {}, 20);
    await tokens.upsert('lasting', {});
    createArtifacts(database, () => now + 10);
    assert.equal(countRows(), 2);
  });

  test('are deleted with a write, at most once a minute and 500 at a time', async () => {
    const tokens = artifacts.adapterFor('AccessToken');
    for (let i = 0; i < 700; i += 1) await tokens.upsert(`t${i}`, {}, 10);
    now += 59;
    await tokens.upsert('a', {}, 1000);
    assert.equal(countRows(), 701);
    now += 1;
    await tokens.upsert('b', {}, 1000);
    assert.equal(countRows(), 202);
    await tokens.upsert('c', {}, 1000);
    assert.equal(countRows(), 203);
    now += 60;
    await tokens.upsert('d', {}, 1000);
    assert.equal(countRows(), 4);
  });
});
