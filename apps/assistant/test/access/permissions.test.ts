import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { sampleAccounts } from '@oselya/dev-idp';
import { openapi } from '../../src/main.ts';
import { hasPermission, type Permission, permissions } from '../../src/access/permissions.ts';

const slugs = Object.keys(permissions) as Permission[];
const defaultsOf = (role: 'user' | 'admin') =>
  slugs.filter((slug) => permissions[slug].defaults.some((one) => one === role)).toSorted();

test('the table is that of the specification', () => {
  assert.equal(slugs.length, 13);
  assert.deepEqual(defaultsOf('admin'), slugs.toSorted());
  assert.deepEqual(defaultsOf('user'), [
    'svc.files.read_own',
    'svc.memory.read_own',
    'svc.profiles.use',
    'svc.sessions.delete_own',
    'svc.sessions.read_own',
    'svc.tools.use',
  ]);
});

test('the sample accounts of the development provider have the defaults', () => {
  for (const { role_ids, permission_ids } of sampleAccounts) {
    const role = role_ids.includes('svc_admin') ? 'admin' : 'user';
    assert.deepEqual(permission_ids.toSorted(), defaultsOf(role));
  }
});

test('an admin has every permission, a user those listed, taken literally', () => {
  for (const slug of slugs) {
    assert.ok(hasPermission({ role: 'admin', permissions: [] }, slug));
    assert.ok(hasPermission({ role: 'user', permissions: [slug] }, slug));
    assert.ok(!hasPermission({ role: 'user', permissions: [] }, slug));
    assert.ok(!hasPermission({ role: 'user', permissions: [slug.toUpperCase(), 'svc.*'] }, slug));
  }
});

const routesIn = (text: string) =>
  [...text.matchAll(/`([A-Z]+ \/[^`]*)`/g)].map(([, route = '']) => route);

type Operation = { security?: { session?: string[] }[] };

test('docs/sign-in.md names every route that needs a permission or the role, and no other', async () => {
  const { paths } = JSON.parse(JSON.stringify(await openapi())) as {
    paths: Record<string, Record<string, Operation>>;
  };
  const needs = new Map<string, readonly string[]>();
  for (const [path, operations] of Object.entries(paths)) {
    for (const [method, { security = [] }] of Object.entries(operations)) {
      needs.set(
        `${method.toUpperCase()} ${path}`,
        security.flatMap(({ session = [] }) => session),
      );
    }
  }
  const page = await readFile(new URL('../../../../docs/sign-in.md', import.meta.url), 'utf8');
  const [, places = ''] = page.split('| is checked at');
  for (const slug of [...slugs, 'admin']) {
    const text =
      slug === 'admin'
        ? (/^The role `admin` itself[^]+?\n\n/m.exec(places)?.[0] ?? '')
        : (/^\|[^\n]+$/m.exec(places.slice(places.indexOf(`| \`${slug}\``)))?.[0] ?? '');
    const documented = routesIn(text);
    assert.deepEqual(
      documented.filter((route) => !needs.has(route)),
      [],
      'routes that exist',
    );
    for (const [route, slugsOfRoute] of needs) {
      if (slugsOfRoute.includes(slug)) assert.ok(documented.includes(route), `${slug}: ${route}`);
    }
  }
});
