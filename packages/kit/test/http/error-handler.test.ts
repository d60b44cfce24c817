import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { commonProblem, createLogger, createServer } from '../../src/index.ts';

const app = await createServer({
  log: createLogger({ level: 'silent', service: 'test' }),
  bodyLimit: 1000,
  openapi: { title: 'Test', description: 'A test.', version: '1' },
});
app.get('/things/:id', () => 'a thing');
app.get('/fails/:status', (request) => {
  const { status } = request.params as { status: string };
  throw Object.assign(new Error('as a plugin says it'), { statusCode: Number(status) });
});
app.get('/many', () => {
  const errors = Array.from({ length: 60 }, (_, index) => ({ path: `p${index}`, message: 'bad' }));
  throw commonProblem('validation_failed', { errors });
});
await app.ready();
after(() => app.close());

test('a mistake of the caller is never answered as a fault of the service', async () => {
  const long = await app.inject(`/things/${'x'.repeat(5000)}`);
  assert.equal(long.statusCode, 400);
  assert.equal(long.json().code, 'malformed_request');
  for (const [thrown, status, code] of [
    [406, 400, 'malformed_request'],
    [413, 413, 'body_too_large'],
    [499, 400, 'malformed_request'],
    [500, 500, 'internal_error'],
    [503, 503, 'unavailable'],
    [599, 500, 'internal_error'],
  ] as const) {
    const answer = await app.inject(`/fails/${thrown}`);
    assert.deepEqual([answer.statusCode, answer.json().code], [status, code]);
  }
});

test('the list of errors is bounded, in a problem and on a page', async () => {
  assert.equal((await app.inject('/many')).json().errors.length, 50);
  const page = await app.inject({ url: '/many', headers: { accept: 'text/html' } });
  assert.equal(page.body.match(/<li>/g)?.length, 50);
});

test('a page about an error without places has no empty list', async () => {
  const page = await app.inject({ url: '/nowhere', headers: { accept: 'text/html' } });
  assert.doesNotMatch(page.body, /<ul>/);
});
