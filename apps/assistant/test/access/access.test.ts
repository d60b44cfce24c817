import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, test } from 'node:test';
import { sampleAccounts } from '@oselya/dev-idp';
import { createLogger, createServer, registerHealthRoutes, type Server } from '@oselya/kit';
import { guardRoutes, signedIn } from '../../src/access/guards.ts';
import {
  accessScope,
  hasPermission,
  type Permission,
  permissions,
} from '../../src/access/permissions.ts';
import { openapi } from '../../src/main.ts';

const slugs = Object.keys(permissions) as Permission[];
const defaultsOf = (role: 'user' | 'admin') =>
  slugs.filter((slug) => permissions[slug].defaults.some((one) => one === role)).toSorted();

test('The permissions and their defaults match the specification', () => {
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
  for (const { role_ids, permission_ids } of sampleAccounts) {
    const role = role_ids.includes('svc_admin') ? 'admin' : 'user';
    assert.deepEqual(permission_ids.toSorted(), defaultsOf(role));
  }
});

test('An admin has every permission, and a user the listed ones', () => {
  for (const slug of slugs) {
    assert.ok(hasPermission({ role: 'admin', permissions: [] }, slug));
    assert.ok(hasPermission({ role: 'user', permissions: [slug] }, slug));
    assert.ok(!hasPermission({ role: 'user', permissions: [] }, slug));
    assert.ok(!hasPermission({ role: 'user', permissions: [slug.toUpperCase(), 'svc.*'] }, slug));
  }
});

const user = (held: string[]) => ({ id: 'u-1', role: 'user' as const, permissions: held });

test('The access scope follows the role, then the permission, then ownership', () => {
  const required: Permission = 'svc.sessions.read_all';
  const others = slugs.filter((slug) => slug !== required);
  const admin = { id: 'u-1', role: 'admin' as const, permissions: [] };
  assert.equal(accessScope(admin), 'everything');
  assert.equal(accessScope(admin, required), 'everything');
  assert.equal(accessScope(user([required]), required), 'every-user');
  assert.deepEqual(accessScope(user(others), required), { userId: 'u-1' });
  assert.deepEqual(accessScope(user(slugs)), { userId: 'u-1' });
});

async function guarded(): Promise<Server> {
  const app = await createServer({
    log: createLogger({ level: 'silent', service: 'test' }),
    bodyLimit: 1000,
    openapi: { title: 'Test', description: 'A test.', version: '1' },
  });
  after(() => app.close());
  guardRoutes(app, {
    baseUrl: 'http://x',
    hasSession: () => false,
    currentUser: () => Promise.resolve(undefined),
  });
  return app;
}

test('A server does not start with a route without declared access', async () => {
  const app = await guarded();
  for (const url of ['/forgotten', '/healthy', '/health/secrets', '/docs/x', '/metrics/x']) {
    assert.throws(() => app.get(url, () => ({})), /does not declare its access/, url);
  }
});

test('Operational routes are open, and public routes have no user', async () => {
  const app = await guarded();
  app.get('/mistake', { config: { access: 'public' } }, (request) => signedIn(request));
  registerHealthRoutes(app, {});
  for (const url of ['/health', '/health/live', '/openapi.json', '/docs/json']) {
    assert.equal((await app.inject(url)).statusCode, 200);
  }
  assert.equal((await app.inject('/unknown')).statusCode, 404);
  assert.equal((await app.inject('/mistake')).statusCode, 500);
});

const routesIn = (text: string) =>
  [...text.matchAll(/`([A-Z]+ \/[^`]*)`/g)].map(([, route = '']) => route);

type Operation = { security?: { session?: string[] }[] };

test('docs/sign-in.md names every route that needs a permission or a role', async () => {
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
