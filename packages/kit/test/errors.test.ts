import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Type } from 'typebox';
import { compilersFactory } from '../src/http/validation.ts';
import { commonProblem, createValidatorCompiler, createProblemFactory } from '../src/index.ts';
import { serve } from './serve.ts';

const app = await serve({
  isOutage: (error) => error instanceof Error && error.message === 'nobody is at home',
});
app.get('/things/:id', () => 'a thing');
app.get('/fails/:status', (request) => {
  const { status } = request.params as { status: string };
  throw Object.assign(new Error('as a plugin says it'), { statusCode: Number(status) });
});
app.get('/outage', () => {
  throw new Error('nobody is at home');
});
app.get('/many', () => {
  const errors = Array.from({ length: 60 }, (_, index) => ({ path: `p${index}`, message: 'bad' }));
  throw commonProblem('validation_failed', { errors });
});
const problem = createProblemFactory({
  busy: { status: 503, title: 'Busy', advice: 'Come again.', retry: true },
  locked: {
    status: 401,
    title: 'Locked',
    advice: 'Send `key`.',
    retry: false,
    page: { advice: 'Knock at the `<door>`.', button: { href: '/knock', text: 'Knock' } },
  },
});
app.get('/busy', () => {
  throw problem('busy');
});
app.get('/busy-for-long', () => {
  throw problem('busy', { headers: { 'retry-after': '90' } });
});
app.get('/locked', () => {
  throw problem('locked');
});
app.get('/locked-for-cause', () => {
  throw problem('locked', { detail: 'The cause is `x`.' });
});
app.post('/locked', () => {
  throw problem('locked');
});
await app.ready();

test('bad input is never a 5xx', async () => {
  const broken = await app.inject('/things/%E0%A4%A');
  assert.equal(broken.statusCode, 400);
  assert.equal(broken.json().code, 'malformed_request');
  assert.equal(broken.json().detail, 'The address is not well formed.');
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

test('an outage is 503 without internals', async () => {
  const answer = await app.inject('/outage');
  assert.deepEqual([answer.statusCode, answer.json().code], [503, 'unavailable']);
  assert.equal(answer.headers['retry-after'], '5');
  assert.ok(!answer.body.includes('nobody is at home'));
});

test('the list of errors is limited', async () => {
  assert.equal((await app.inject('/many')).json().errors.length, 50);
  const page = await app.inject({ url: '/many', headers: { accept: 'text/html' } });
  assert.equal(page.body.match(/<li>/g)?.length, 50);
});

test('browsers get a page with a link, programs a problem', async () => {
  const asPage = { headers: { accept: 'text/html' } };
  assert.equal((await app.inject('/locked')).json().detail, 'Send `key`.');
  const page = await app.inject({ url: '/locked', ...asPage });
  assert.match(page.body, /<p>Knock at the <code>&#60;door&#62;<\/code>\.<\/p>/);
  assert.match(page.body, /<a class="button" href="\/knock">Knock<\/a>/);
  const cause = await app.inject({ url: '/locked-for-cause', ...asPage });
  assert.match(cause.body, /<p>The cause is <code>x<\/code>\.<\/p>/);
  const other = await app.inject({ url: '/busy', ...asPage });
  assert.doesNotMatch(other.body, /class="button"/);
});

test('a form of a page is answered with a page', async () => {
  const accept = 'text/html,*/*;q=0.8';
  const navigation = { headers: { accept, 'sec-fetch-mode': 'navigate' } };
  const page = await app.inject({ method: 'POST', url: '/locked', ...navigation });
  assert.equal(page.statusCode, 401);
  assert.match(String(page.headers['content-type']), /^text\/html/);
  const script = await app.inject({ method: 'POST', url: '/locked', headers: { accept } });
  assert.match(String(script.headers['content-type']), /problem\+json/);
});

test('429 and 503 have Retry-After, other errors do not', async () => {
  for (const [url, retryAfter] of [
    ['/busy', '5'],
    ['/busy-for-long', '90'],
    ['/fails/503', '5'],
    ['/fails/429', '5'],
    ['/fails/500', undefined],
    ['/nowhere', undefined],
    ['/things/1', undefined],
  ] as const) {
    assert.equal((await app.inject(url)).headers['retry-after'], retryAfter, url);
  }
  const page = await app.inject({ url: '/busy', headers: { accept: 'text/html' } });
  assert.equal(page.headers['retry-after'], '5');
});

test('errors are not cached', async () => {
  for (const url of ['/nowhere', '/fails/500', '/busy']) {
    assert.equal((await app.inject(url)).headers['cache-control'], 'no-store', url);
  }
  assert.equal((await app.inject('/things/1')).headers['cache-control'], undefined);
});

test('a malformed address is not repeated in its page', async () => {
  const url = '/things%zz?sid=very-secret';
  assert.ok(!(await app.inject(url)).body.includes('very-secret'));
  const page = await app.inject({ url, headers: { accept: 'text/html' } });
  assert.equal(page.statusCode, 400);
  assert.match(page.body, /The address is not well formed/);
  assert.match(String(page.headers['content-security-policy']), /default-src 'none'/);
});

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

const validating = await serve();
const body = Type.Partial(Type.Object(members));
validating.post('/body', { schema: { body } }, () => ({}));
validating.get('/query', { schema: { querystring: Type.Object({ choice }) } }, () => ({}));
await validating.ready();

type Listed = { path: string; message: string }[];
const listed = ({ json }: { json: () => { errors: Listed } }) =>
  json().errors.map(({ path, message }) => `${path}: ${message}`);

const invalid = [
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
] as const;

test('each broken rule is described once with its place', async () => {
  for (const [payload, ...expected] of invalid) {
    const answer = await validating.inject({ method: 'POST', url: '/body', payload });
    assert.equal(answer.statusCode, 422);
    assert.deepEqual(listed(answer), expected);
  }
});

const phoneBook = Type.Object(
  {
    name: Type.Optional(Type.String()),
    phones: Type.Optional(Type.Array(Type.String(), { maxItems: 20 })),
    more: Type.Optional(Type.Object({}, { additionalProperties: true })),
  },
  { additionalProperties: false },
);
const compileSchema = createValidatorCompiler();
const validators = ['body', 'querystring'].map((httpPart) =>
  compileSchema({ schema: phoneBook, method: 'POST', url: '/', httpPart }),
);

function keywordsOf(value: unknown): string[][] {
  return validators.map((validate) => {
    assert.equal(validate(value), false);
    return (validate.errors ?? []).map(({ keyword }) => keyword);
  });
}

test('all errors are listed', () => {
  const wrong = { name: {}, phones: [{}, ...Array<string>(20).fill('1'), {}], unknown: 1 };
  const told = ['additionalProperties', 'maxItems', 'type', 'type', 'type'];
  assert.deepEqual(
    keywordsOf(wrong).map((keywords) => keywords.toSorted()),
    [told, told],
  );
  for (const validate of validators) assert.equal(validate({ name: 'a' }), true);
});

test('a huge request gives one error', () => {
  const phones = Array.from({ length: 500_000 }, () => ({}));
  const keys = Object.fromEntries(Array.from({ length: 50_000 }, (_, n) => [`k${n}`, n]));
  for (const wrong of [{ phones }, keys, { name: {}, more: { deep: { phones } } }]) {
    assert.deepEqual(
      keywordsOf(wrong).map(({ length }) => length),
      [1, 1],
    );
  }
});

test('a request of any depth is validated', () => {
  let more: object = {};
  for (let depth = 0; depth < 4000; depth += 1) more = { more };
  assert.deepEqual(keywordsOf({ name: {}, more }), [['type'], ['type']]);
});

type Compile = (part: { schema: object; httpPart?: string }) => (value: unknown) => unknown;
const { buildValidator, buildSerializer } = compilersFactory as unknown as Record<
  'buildValidator' | 'buildSerializer',
  (shared: object, options?: object) => Compile
>;

const count = (maximum: number) => ({ $id: 'count', type: 'integer', maximum });
const counted = { schema: { $ref: 'count' }, httpPart: 'body' };

test('equal schemas are compiled once', () => {
  const compiled = buildValidator({ count: count(3) })(counted);
  assert.equal(buildValidator({ count: count(3) })(structuredClone(counted)), compiled);
  const serialized = { schema: { type: 'object', properties: { a: { type: 'number' } } } };
  assert.equal(
    buildSerializer({})(structuredClone(serialized)),
    buildSerializer({})(structuredClone(serialized)),
  );
});

test('references of a schema are resolved in its scope', () => {
  assert.equal(buildValidator({ count: count(3) })(counted)(4), false);
  assert.equal(buildValidator({ count: count(5) })(counted)(4), true);
});

test('numbers are coerced in addresses and not in bodies', () => {
  const compile = buildValidator({});
  const schema = { type: 'object', properties: { limit: { type: 'integer' } } };
  assert.equal(compile({ schema, httpPart: 'body' })({ limit: '2' }), false);
  assert.equal(compile({ schema, httpPart: 'querystring' })({ limit: '2' }), true);
});
