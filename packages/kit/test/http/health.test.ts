import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { after, test } from 'node:test';
import { createLogger, createServer, type HealthChecks, healthRoutes } from '../../src/index.ts';

const lines: string[] = [];

async function serve(checks: HealthChecks) {
  const app = await createServer({
    log: createLogger({
      level: 'warn',
      service: 'test',
      destination: { write: (line) => lines.push(line) },
    }),
    bodyLimit: 1000,
    openapi: { title: 'Test', description: 'A test.', version: '1' },
  });
  healthRoutes(app, checks);
  after(() => app.close());
  return app;
}

test('a check that fails is down; why is in the log and not in the answer', async () => {
  const app = await serve({
    rejects: async () => Promise.reject(new Error('password of 10.0.0.7 refused')),
    throws: () => {
      throw new Error('no socket');
    },
    refused: () => {
      const cause = Object.assign(new Error('connect 10.0.0.7:5432'), { code: 'ECONNREFUSED' });
      throw Object.assign(new Error('away', { cause }), { code: 'DATABASE_UNREACHABLE' });
    },
    talks: () => {
      throw Object.assign(new Error('no'), { code: 'user olena is unknown' });
    },
  });
  const answer = await app.inject('/health');
  assert.equal(answer.statusCode, 503);
  assert.equal(answer.headers['retry-after'], '5');
  assert.equal(answer.json().checks.rejects.status, 'down');
  assert.equal(answer.json().checks.throws.status, 'down');
  const { rejects, refused, talks } = answer.json().checks;
  assert.equal(rejects.detail, 'The check failed; see the log.');
  assert.equal(refused.detail, 'The check failed (ECONNREFUSED); see the log.');
  assert.equal(talks.detail, 'The check failed; see the log.');
  assert.doesNotMatch(answer.body, /10\.0\.0\.7|socket|olena/);
  const logged = lines.map((line) => JSON.parse(line));
  assert.deepEqual(Object.fromEntries(logged.map((line) => [line.check, line.err.message])), {
    rejects: 'password of 10.0.0.7 refused',
    throws: 'no socket',
    refused: 'away',
    talks: 'no',
  });
});

test('a check that does not answer is told to stop, and is down', async () => {
  const stopped = Promise.withResolvers<void>();
  const app = await serve({
    silent: (signal) => {
      signal.addEventListener('abort', () => stopped.resolve());
      return new Promise(() => undefined);
    },
  });
  const answer = await app.inject('/health');
  await stopped.promise;
  assert.deepEqual(answer.json().checks.silent, {
    status: 'down',
    detail: 'No answer within 3 s.',
  });
});

test('a check whose peer hangs still says itself how bad that is', async () => {
  const silent = createTcpServer((socket) => socket.resume());
  after(() => silent.close());
  await once(silent.listen(0, '127.0.0.1'), 'listening');
  const { port } = silent.address() as AddressInfo;
  const app = await serve({
    peer: async (signal) => {
      const answer = await fetch(`http://127.0.0.1:${port}`, { signal }).catch(() => undefined);
      return { status: answer === undefined ? 'degraded' : 'ok' };
    },
  });
  for (const path of ['/health', '/health/ready']) {
    const answer = await app.inject(path);
    assert.equal(answer.statusCode, 200);
    assert.equal(answer.json().status, 'degraded');
  }
});
