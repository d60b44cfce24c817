import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createLogger, createServer, healthRoutes, type Server } from '@oselya/kit';
import { type Access, guardRoutes, signedIn } from '../../src/access/guards.ts';
import { permissions } from '../../src/access/permissions.ts';
import type { User } from '../../src/access/user.ts';

const users: Record<string, User> = {
  user: account('user', []),
  holder: account('user', ['svc.memory.read_all']),
  admin: account('admin', []),
};

function account(role: 'user' | 'admin', held: string[]): User {
  return { id: 'u', email: 'u@example.test', display_name: null, role, permissions: held };
}

async function guarded(): Promise<Server> {
  const app = await createServer({
    log: createLogger({ level: 'silent', service: 'test' }),
    bodyLimit: 1000,
    openapi: {
      title: 'Test',
      description: 'A test.',
      version: '1',
      securitySchemes: {
        session: { type: 'apiKey', in: 'cookie', name: 'session', description: 'A session.' },
      },
    },
  });
  after(() => app.close());
  guardRoutes(app, async ({ headers }) => {
    const user = users[String(headers['x-user'])];
    return user && { user, generation: 0 };
  });
  return app;
}

const app = await guarded();
const routes: Record<string, Access> = {
  '/public': 'public',
  '/signed-in': 'signed-in',
  '/admin': { role: 'admin' },
  '/memory': { permission: 'svc.memory.read_all' },
};
for (const [url, access] of Object.entries(routes)) {
  app.get(url, { config: { access } }, (request) => ({ role: request.user?.role ?? null }));
}
app.get('/mistake', { config: { access: 'public' } }, (request) => signedIn(request));
healthRoutes(app, {});
await app.ready();

const expected: [string, Record<string, number>][] = [
  ['/public', { nobody: 200, user: 200, holder: 200, admin: 200 }],
  ['/signed-in', { nobody: 401, user: 200, holder: 200, admin: 200 }],
  ['/admin', { nobody: 401, user: 403, holder: 403, admin: 200 }],
  ['/memory', { nobody: 401, user: 403, holder: 200, admin: 200 }],
];

for (const [url, byUser] of expected) {
  for (const [name, status] of Object.entries(byUser)) {
    for (const method of ['GET', 'HEAD'] as const) {
      test(`${method} ${url} as ${name} is ${status}`, async () => {
        const answer = await app.inject({ method, url, headers: { 'x-user': name } });
        assert.equal(answer.statusCode, status);
        if (status !== 200) assert.equal(answer.headers['cache-control'], 'no-store');
      });
    }
  }
}

test('a refusal names the permission or the role', async () => {
  const memory = await app.inject({ url: '/memory', headers: { 'x-user': 'user' } });
  assert.equal(memory.json().code, 'permission_missing');
  assert.match(memory.json().detail, /svc\.memory\.read_all/);
  const admin = await app.inject({ url: '/admin', headers: { 'x-user': 'user' } });
  assert.equal(admin.json().code, 'admin_only');
});

test('a route that does not declare its access stops the start', async () => {
  const careless = await guarded();
  assert.throws(
    () => careless.get('/forgotten', () => ({})),
    /\/forgotten does not declare its access/,
  );
  for (const url of ['/healthy', '/health/secrets', '/docs/drafts', '/metrics/of-users']) {
    assert.throws(() => careless.get(url, () => ({})), /does not declare its access/, url);
  }
});

test('the OpenAPI document tells which routes need a session, and which role or permission', async () => {
  const { paths } = (await app.inject('/openapi.json')).json();
  for (const [url, access] of Object.entries(routes)) {
    const needs = typeof access === 'string' ? [] : Object.values(access);
    const security = access === 'public' ? undefined : [{ session: needs }];
    assert.deepEqual(paths[url].get.security, security, url);
  }
  assert.equal(paths['/health'].get.security, undefined);
});

test('what every server serves stays open, and an unknown address is 404', async () => {
  for (const url of ['/health', '/health/live', '/openapi.json', '/docs/json']) {
    assert.equal((await app.inject(url)).statusCode, 200);
  }
  assert.equal((await app.inject('/unknown')).statusCode, 404);
});

test('a handler of a public route cannot take its user for granted', async () => {
  assert.equal((await app.inject('/mistake')).statusCode, 500);
});

test('every permission can be declared', () => {
  for (const slug of Object.keys(permissions)) assert.match(slug, /^svc\.[a-z]+\.[a-z_]+$/);
});
