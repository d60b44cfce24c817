import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Type } from 'typebox';
import {
  commonErrors,
  createLogger,
  createServer,
  describeProblems,
  pageQuery,
} from '../../src/index.ts';

const app = await createServer({
  log: createLogger({ level: 'silent', service: 'test' }),
  bodyLimit: 100,
  openapi: { title: 'Test', description: 'A test.', version: '1' },
});
const problemAnswers = describeProblems(commonErrors);
const response = { 200: Type.Array(Type.Number()), ...problemAnswers(422, 429, 503) };
const querystring = Type.Object(pageQuery({ limit: 1, maxLimit: 2 }));
app.get('/list', { schema: { querystring, response } }, () => []);
app.post('/one', { schema: { response } }, () => []);
after(() => app.close());
await app.ready();

type Answer = { headers: Record<string, object>; content: Record<string, object> };
const document: {
  paths: Record<string, Record<string, { responses: Record<string, Answer> }>>;
  components: { headers: Record<string, object> };
} = JSON.parse(JSON.stringify(app.swagger()));
const { '/list': list, '/one': one } = document.paths;
const described = (answers: Record<string, Answer> | undefined) =>
  Object.fromEntries(
    Object.entries(answers ?? {}).map(([status, { headers }]) => [status, Object.keys(headers)]),
  );

const types = (answer: Answer | undefined) => Object.keys(answer?.content ?? {});

const LIMITED = ['Retry-After', 'RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset'];

test('the headers of answers are described, each once', () => {
  assert.deepEqual(described(list?.['get']?.responses), {
    200: ['X-Request-Id', 'Link'],
    422: ['X-Request-Id'],
    429: ['X-Request-Id', ...LIMITED],
    500: ['X-Request-Id'],
    503: ['X-Request-Id', 'Retry-After'],
  });
  assert.deepEqual(described(one?.['post']?.responses)['200'], ['X-Request-Id']);
  assert.deepEqual(
    Object.keys(document.components.headers).toSorted(),
    ['Link', 'X-Request-Id', ...LIMITED].toSorted(),
  );
});

test('a problem of what browsers open may be a page', () => {
  assert.deepEqual(types(list?.['get']?.responses['422']), [
    'application/problem+json',
    'text/html',
  ]);
  assert.deepEqual(types(list?.['get']?.responses['200']), ['application/json']);
  assert.deepEqual(types(one?.['post']?.responses['422']), ['application/problem+json']);
});
