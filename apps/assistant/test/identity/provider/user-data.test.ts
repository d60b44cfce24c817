import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { User } from '../../../src/access/permissions.ts';
import { NoEmailError, ProviderError } from '../../../src/identity/provider/transport.ts';
import { readUserData, parseProviderJson } from '../../../src/identity/provider/user-data.ts';

const rules = {
  IDP_CLIENT_ID: 'oselya',
  IDP_ADMIN_ROLE_SLUG: 'svc_admin',
  IDP_ROLES_CLAIM: '',
  IDP_PERMISSIONS_CLAIM: '',
};
const who = { sub: 'u-1', email: 'olena@example.test' };
const nothing: Partial<User> = { role: 'user', permissions: [] };
const entry = { client_id: 'oselya', role_ids: ['svc_admin'], permission_ids: ['svc.tools.use'] };
const other = { client_id: 'other', role_ids: ['svc_admin'], permission_ids: ['svc.tools.use'] };
const withList = (client_access_list: unknown) => ({ ...who, client_access_list });

const cases: [string, unknown, Partial<User>][] = [
  ['sub is the id', who, { id: 'u-1', display_name: null, ...nothing }],
  ['id stands in for sub', { id: 'u-2', email: 'a@example.test' }, { id: 'u-2' }],
  ['sub goes before id', { ...who, id: 'u-2' }, { id: 'u-1' }],
  [
    'the display name is the profile’s',
    { ...who, profile: { display_name: 'О' } },
    { display_name: 'О' },
  ],
  ['name stands in for it', { ...who, name: 'N' }, { display_name: 'N' }],
  [
    'the profile goes before name',
    { ...who, name: 'N', profile: { display_name: 'P' } },
    { display_name: 'P' },
  ],
  [
    'an empty name is none',
    { ...who, name: '', profile: { display_name: '' } },
    { display_name: null },
  ],
  [
    'a name with a NUL is none',
    { ...who, profile: { display_name: 'O\0' } },
    { display_name: null },
  ],
  ['half a character is no name', { ...who, name: '\ud83d' }, { display_name: null }],
  ['a name without end is none', { ...who, name: 'O'.repeat(256) }, { display_name: null }],
  [
    'a name that cannot be stored makes room for one that can',
    { ...who, name: 'N', profile: { display_name: 'P\0' } },
    { display_name: 'N' },
  ],
  [
    'slugs that cannot be stored are left out',
    withList([
      { ...entry, permission_ids: ['a\0', 'svc.tools.use', '\udc00', 'b'.repeat(256), ''] },
    ]),
    { permissions: ['svc.tools.use'] },
  ],
  [
    'an entry gives role and permissions',
    withList([entry]),
    { role: 'admin', permissions: ['svc.tools.use'] },
  ],
  ['one entry among many is ours', withList([other, entry]), { role: 'admin' }],
  [
    'the role slug is taken literally',
    withList([{ ...entry, role_ids: ['SVC_ADMIN', 'svc_admin '] }]),
    { role: 'user', permissions: ['svc.tools.use'] },
  ],
  [
    'permissions are not repeated',
    withList([{ ...entry, permission_ids: ['a', 'b', 'a'] }]),
    { permissions: ['a', 'b'] },
  ],
  ['missing parts are empty', withList([{ client_id: 'oselya' }]), nothing],
  ['another client’s entry is not ours', withList([other]), nothing],
  ['no list', who, nothing],
  ['null for a list', withList(null), nothing],
  ['an object for a list', withList({ 0: entry }), nothing],
  ['text for a list', withList('svc_admin'), nothing],
  ['junk in the list', withList([null, 1, 'x', []]), nothing],
  ['text for roles', withList([{ ...entry, role_ids: 'svc_admin' }]), nothing],
  ['numbers for permissions', withList([{ ...entry, permission_ids: [1] }]), nothing],
  ['two entries for this client', withList([entry, { ...entry, role_ids: [] }]), nothing],
  [
    'far too many permissions',
    withList([{ ...entry, permission_ids: Array(1001).fill('a') }]),
    nothing,
  ],
];

for (const [name, answer, expected] of cases) {
  test(name, () => {
    const user = readUserData(answer, rules);
    assert.deepEqual(user, { ...user, ...expected });
  });
}

for (const member of ['sub', 'id']) {
  for (const id of ['0', '78', '9007199254740993', '12345678901234567890']) {
    test(`the number ${id} as ${member} is the id as text`, () => {
      const answer = parseProviderJson(`{"${member}":${id},"email":"olena@example.test"}`);
      assert.equal(readUserData(answer, rules).id, id);
    });
  }
}

test('claims can stand in for the list, by path or by a name with dots', () => {
  const claims = {
    ...rules,
    IDP_ROLES_CLAIM: 'realm.access.roles',
    IDP_PERMISSIONS_CLAIM: 'scope',
  };
  const read = (more: object) => readUserData({ ...who, ...more }, claims);
  assert.equal(read({ realm: { access: { roles: ['svc_admin'] } } }).role, 'admin');
  assert.equal(read({ 'realm.access.roles': ['svc_admin'] }).role, 'admin');
  assert.deepEqual(read({ scope: 'svc.tools.use  svc.debug.access' }).permissions, [
    'svc.tools.use',
    'svc.debug.access',
  ]);
  assert.equal(read({ client_access_list: [entry] }).role, 'user');
  for (const realm of [undefined, null, 'access', { access: { roles: { svc_admin: true } } }]) {
    assert.equal(read({ realm }).role, 'user');
  }
});

test('an inherited property is no answer', () => {
  const claims = { ...rules, IDP_ROLES_CLAIM: 'constructor.name' };
  assert.equal(readUserData(who, { ...claims, IDP_ADMIN_ROLE_SLUG: 'Object' }).role, 'user');
});

for (const answer of [
  null,
  [],
  'u-1',
  {},
  { ...who, sub: '' },
  parseProviderJson('{"sub":7.5,"email":"olena@example.test"}'),
  parseProviderJson('{"sub":1e3,"email":"olena@example.test"}'),
  { ...who, sub: true },
  { ...who, sub: 'u-1\0' },
  { ...who, sub: 'u-\ud83d' },
  { ...who, sub: 'u'.repeat(256) },
]) {
  test(`${JSON.stringify(answer).slice(0, 80)} names no user`, () => {
    assert.throws(
      () => readUserData(answer, rules),
      (error) => error instanceof ProviderError && error.kind === 'unavailable',
    );
  });
}

for (const email of [
  undefined,
  null,
  '',
  'olena@example.test\0',
  `${'o'.repeat(310)}@example.test`,
]) {
  test(`${JSON.stringify(email)?.slice(0, 40)} is no email`, () => {
    assert.throws(() => readUserData({ ...who, email }, rules), NoEmailError);
  });
}

test('whatever the access list is, it opens nothing by accident', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (list) => {
      const user = readUserData(withList(list), rules);
      assert.deepEqual([user.role, user.permissions], ['user', []]);
    }),
  );
});
