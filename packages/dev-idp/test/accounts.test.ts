import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createAccounts, sampleAccounts } from '../src/accounts.ts';
import { openDatabase } from '../src/store/database.ts';

const olena = {
  sub: 'u-1',
  email: 'olena@example.test',
  display_name: 'Olena',
  role_ids: ['svc_user'],
  permission_ids: ['svc.tools.use'],
  blocked: false,
};

describe('sample accounts', () => {
  test('have the default permissions of their roles', () => {
    const [user, admin] = sampleAccounts;
    assert.deepEqual(user?.role_ids, ['svc_user']);
    assert.deepEqual(user.permission_ids.toSorted(), [
      'svc.files.read_own',
      'svc.memory.read_own',
      'svc.profiles.use',
      'svc.sessions.delete_own',
      'svc.sessions.read_own',
      'svc.tools.use',
    ]);
    assert.deepEqual(admin?.role_ids, ['svc_admin']);
    assert.equal(new Set(admin.permission_ids).size, 13);
    assert.ok(new Set(admin.permission_ids).isSupersetOf(new Set(user.permission_ids)));
  });
});

describe('accounts', () => {
  test('are those configured with the changes made since', () => {
    const accounts = createAccounts(openDatabase(), [olena]);
    accounts.setAccess('u-1', { role_ids: ['svc_admin'], permission_ids: [] });
    accounts.setBlocked('u-1', true);
    const changed = { ...olena, role_ids: ['svc_admin'], permission_ids: [], blocked: true };
    assert.deepEqual(accounts.find('u-1'), changed);
    assert.deepEqual(accounts.list(), [changed]);

    accounts.setBlocked('u-1', false);
    assert.deepEqual(accounts.find('u-1'), { ...changed, blocked: false });
  });

  test('follow the configuration where nothing was changed', () => {
    const database = openDatabase();
    createAccounts(database, [{ ...olena, blocked: true }]).setAccess('u-1', {
      role_ids: [],
      permission_ids: [],
    });
    const later = { ...olena, email: 'o.koval@example.test', role_ids: ['svc_admin'] };
    assert.deepEqual(createAccounts(database, [later]).find('u-1'), {
      ...later,
      role_ids: [],
      permission_ids: [],
    });
  });

  test('are copies: changing one changes nothing here', () => {
    const accounts = createAccounts(openDatabase(), [olena]);
    accounts.find('u-1')?.role_ids.push('svc_admin');
    assert.deepEqual(accounts.find('u-1')?.role_ids, ['svc_user']);
  });

  test('that do not exist cannot be changed', () => {
    const accounts = createAccounts(openDatabase(), [olena]);
    assert.equal(accounts.find('u-2'), undefined);
    assert.throws(() => accounts.setBlocked('u-2', true), /no account with sub "u-2"/);
    assert.throws(
      () => accounts.setAccess('u-2', { role_ids: [], permission_ids: [] }),
      /no account with sub "u-2"/,
    );
  });

  test('must be configured, each under its own sub', () => {
    const database = openDatabase();
    assert.throws(() => createAccounts(database, []), /at least one account/);
    assert.throws(() => createAccounts(database, [olena, olena]), /only once/);
  });
});
