import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { type Accounts, createAccounts } from '../../src/accounts.ts';
import { type Acts, createActs } from '../../src/control/acts.ts';
import { type Artifacts, createArtifacts } from '../../src/store/artifacts.ts';
import { openDatabase } from '../../src/store/database.ts';
import { createWebhooks, type Webhooks } from '../../src/webhooks/webhooks.ts';

const olena = {
  sub: 'u-1',
  email: 'olena@example.test',
  display_name: 'Olena',
  role_ids: ['svc_user'],
  permission_ids: ['svc.tools.use', 'svc.profiles.use'],
  blocked: false,
};
const { role_ids, permission_ids } = olena;

let accounts: Accounts;
let artifacts: Artifacts;
let acts: Acts;
/** Each event with how things stood at the provider when it was sent. */
let told: [event: string, userId: string | undefined, blocked: boolean, hasToken: boolean][];
let hasToken: () => Promise<boolean>;

beforeEach(async () => {
  const database = openDatabase();
  accounts = createAccounts(database, [olena]);
  artifacts = createArtifacts(database);
  told = [];
  const silent = createWebhooks();
  const webhooks: Webhooks = {
    ...silent,
    send(event, userId) {
      const tokens = database.prepare('select 1 from artifacts').all().length;
      told.push([event, userId, accounts.find('u-1')?.blocked ?? false, tokens > 0]);
      return silent.send(event, userId);
    },
  };
  acts = createActs(accounts, artifacts, webhooks);
  const tokens = artifacts.adapterFor('RefreshToken');
  await tokens.upsert('t', { accountId: 'u-1' }, 60);
  hasToken = async () => (await tokens.find('t')) !== undefined;
});

const eventsOf = (caused: ReturnType<Acts['setAccess']>) => caused.map(({ event }) => event);

describe('an act is done first and told then', () => {
  test('block and unblock', () => {
    acts.setBlocked('u-1', true);
    acts.setBlocked('u-1', false);
    assert.deepEqual(told, [
      ['user.blocked', 'u-1', true, false],
      ['user.unblocked', 'u-1', false, false],
    ]);
  });

  test('revoke sessions', () => {
    acts.revokeSessions('u-1');
    assert.deepEqual(told, [['session.revoked', 'u-1', false, false]]);
  });

  test('log everybody out', () => {
    acts.logOutEverybody();
    assert.deepEqual(told, [['auth.global_logout', undefined, false, false]]);
  });

  test('unblocking ends no sign-in, and neither does a change of access', async () => {
    acts.setBlocked('u-1', false);
    acts.setAccess('u-1', { role_ids: [], permission_ids: [] });
    assert.equal(await hasToken(), true);
  });
});

describe('a change of access', () => {
  test('tells of roles and permissions apart', () => {
    const admin = { role_ids: ['svc_user', 'svc_admin'], permission_ids };
    assert.deepEqual(eventsOf(acts.setAccess('u-1', admin)), ['client.roles_changed']);
    const limited = { ...admin, permission_ids: [] };
    assert.deepEqual(eventsOf(acts.setAccess('u-1', limited)), ['client.permissions_changed']);
    assert.deepEqual(eventsOf(acts.setAccess('u-1', { role_ids, permission_ids })), [
      'client.roles_changed',
      'client.permissions_changed',
    ]);
    assert.deepEqual(
      told.map(([, userId]) => userId),
      ['u-1', 'u-1', 'u-1', 'u-1'],
    );
  });

  test('that changes the order alone is none', () => {
    const turned = { role_ids, permission_ids: permission_ids.toReversed() };
    assert.deepEqual(acts.setAccess('u-1', turned), []);
    assert.deepEqual(told, []);
  });
});

test('an act that changes nothing is not told', () => {
  assert.deepEqual(acts.setBlocked('u-1', false), []);
  acts.setBlocked('u-1', true);
  assert.deepEqual(acts.setBlocked('u-1', true), []);
  assert.equal(told.length, 1);
});

test('nobody is told of an account that does not exist', () => {
  assert.throws(() => acts.setBlocked('u-2', true), RangeError);
  assert.throws(() => acts.setAccess('u-2', { role_ids, permission_ids }), RangeError);
  assert.deepEqual(told, []);
});
