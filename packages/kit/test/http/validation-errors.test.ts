import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Type } from 'typebox';
import { createLogger, createServer } from '../../src/index.ts';

const choice = Type.Union([Type.Literal('own'), Type.Literal('all')]);
const members = {
  choice,
  orNull: Type.Union([choice, Type.Null()]),
  numbers: Type.Union([Type.Literal(320), Type.Literal(1024)]),
  text: Type.Union([Type.String({ maxLength: 2 }), Type.Null()]),
  fixed: Type.Literal(true),
  listed: Type.Enum(['q', 'w']),
  deep: Type.Union([Type.Object({ a: Type.String() }), Type.Object({ a: Type.Boolean() })]),
  list: Type.Array(choice),
  count: Type.Integer({ minimum: 1 }),
};

const app = await createServer({
  log: createLogger({ level: 'silent', service: 'test' }),
  bodyLimit: 1000,
  openapi: { title: 'Test', description: 'A test.', version: '1' },
});
const body = Type.Partial(Type.Object(members));
app.post('/body', { schema: { body } }, () => ({}));
app.get('/query', { schema: { querystring: Type.Object({ choice }) } }, () => ({}));
await app.ready();
after(() => app.close());

type Listed = { path: string; message: string }[];
const listed = ({ json }: { json: () => { errors: Listed } }) =>
  json().errors.map(({ path, message }) => `${path}: ${message}`);

for (const [payload, ...expected] of [
  [{ choice: 'x' }, 'body/choice: must be one of own, all'],
  [{ choice: 5 }, 'body/choice: must be one of own, all'],
  [{ choice: {} }, 'body/choice: must be one of own, all'],
  [{ orNull: 'x' }, 'body/orNull: must be one of own, all, null'],
  [{ numbers: 7 }, 'body/numbers: must be one of 320, 1024'],
  [{ text: 7 }, 'body/text: must be string, or must be null'],
  [{ text: 'long' }, 'body/text: must NOT have more than 2 characters, or must be null'],
  [{ fixed: 'x' }, 'body/fixed: must be true'],
  [{ listed: 'e' }, 'body/listed: must be one of q, w'],
  [{ deep: 1 }, 'body/deep: must be object'],
  [
    { deep: { a: 1 } },
    'body/deep/a: must be string, or must be boolean',
    'body/deep: must match a schema in anyOf',
  ],
  [
    { list: ['own', 'x', 'all', 'y'] },
    'body/list/1: must be one of own, all',
    'body/list/3: must be one of own, all',
  ],
  [{ count: 0.5 }, 'body/count: must be integer', 'body/count: must be >= 1'],
] as const) {
  test(`what is wrong with ${JSON.stringify(payload)} is told`, async () => {
    const answer = await app.inject({ method: 'POST', url: '/body', payload });
    assert.equal(answer.statusCode, 422);
    assert.deepEqual(listed(answer), expected);
  });
}

test('a choice in the query is told of once', async () => {
  const answer = await app.inject('/query?choice=mine');
  assert.deepEqual(listed(answer), ['querystring/choice: must be one of own, all']);
});
