import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { commonProblem, createLogger, createServer, defineProblems } from '../../src/index.ts';

const app = await createServer({
  log: createLogger({ level: 'silent', service: 'test' }),
  bodyLimit: 1000,
  openapi: { title: 'Test', description: 'A test.', version: '1' },
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
const problem = defineProblems({
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
after(() => app.close());

test('a mistake of the caller is never answered as a fault of the service', async () => {
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

test('what is needed and out of reach is 503, and says nothing of its inside', async () => {
  const answer = await app.inject('/outage');
  assert.deepEqual([answer.statusCode, answer.json().code], [503, 'unavailable']);
  assert.equal(answer.headers['retry-after'], '5');
  assert.ok(!answer.body.includes('nobody is at home'));
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

test('a page speaks to people and shows the way on, a problem to programs', async () => {
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

test('every 429 and 503 says when to come again, and no other answer does', async () => {
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

test('an error stays in no cache', async () => {
  for (const url of ['/nowhere', '/fails/500', '/busy']) {
    assert.equal((await app.inject(url)).headers['cache-control'], 'no-store', url);
  }
  assert.equal((await app.inject('/things/1')).headers['cache-control'], undefined);
});

test('a malformed address is not repeated, and its page has the headers of every page', async () => {
  const url = '/things%zz?sid=very-secret';
  assert.ok(!(await app.inject(url)).body.includes('very-secret'));
  const page = await app.inject({ url, headers: { accept: 'text/html' } });
  assert.equal(page.statusCode, 400);
  assert.match(page.body, /The address is not well formed/);
  assert.match(String(page.headers['content-security-policy']), /default-src 'none'/);
});
