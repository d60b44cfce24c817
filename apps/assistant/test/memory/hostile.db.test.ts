import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { openAssistant } from '../helpers/assistant.ts';
import { signInPeople } from './people.ts';

const assistant = await openAssistant({ IDP_USER_MAX_AGE_SECONDS: '3600' });
const { olena, admin } = await signInPeople(assistant, await assistant.instance());

const write = (path: string, payload: object = { value: 'v' }) =>
  olena.request('PUT', `/memory/facts/${path}`, { payload });

const names: [string, string][] = [
  ['plain', 'rooms'],
  ['a slash', 'a/b'],
  ['dots', '...'],
  ['a percent sign', '100%'],
  ['what looks encoded', '%2F'],
  ['a question mark and a hash', '?#&='],
  ['a quote', "'; drop table memory_facts; --"],
  ['patterns of LIKE', '%_\\'],
  ['an empty line', '\n'],
  ['a member of every object', '__proto__'],
  ['another of them', 'constructor'],
  ['100 letters', 'ї'.repeat(100)],
  ['100 characters of two units each', '🏠'.repeat(100)],
];
for (const [what, name] of names) {
  test(`a name can be ${what}`, async () => {
    const path = `${encodeURIComponent(name)}/${encodeURIComponent(name)}`;
    const written = await write(path);
    assert.equal(written.statusCode, 201, written.body);
    assert.equal(written.json().category, name);
    assert.equal(written.json().key, name);
    const [found] = (await olena.get(`/memory/facts?category=${encodeURIComponent(name)}`)).json();
    assert.equal(found.key, name);
    assert.equal((await olena.request('DELETE', `/memory/facts/${path}`)).statusCode, 200);
  });
}

const badPaths: [string, number][] = [
  ['a/%00', 422],
  ['%00/a', 422],
  ['a/b%00c', 422],
  ['a/', 422],
  ['/a', 422],
  [`a/${'b'.repeat(101)}`, 422],
  [`${'🏠'.repeat(101)}/b`, 422],
  [`a/${'b'.repeat(301)}`, 422],
  ['a/%', 400],
  ['a/%E0%A4%A', 400],
  ['a/%ED%A0%80', 400],
  ['a', 404],
  ['a/b/c', 404],
];
for (const [path, status] of badPaths) {
  test(`the name ${path.slice(0, 20)} is ${status}`, async () => {
    const answers = [
      await write(encodeURI(path).replaceAll('%25', '%')),
      await olena.request('DELETE', `/memory/facts/${encodeURI(path).replaceAll('%25', '%')}`),
    ];
    for (const answer of answers) {
      assert.equal(answer.statusCode, status, answer.body);
      assert.match(String(answer.headers['content-type']), /problem\+json/);
    }
  });
}

const badBodies: [object, string][] = [
  [{}, 'body'],
  [[], 'body'],
  [{ value: 'v', more: 1 }, 'body'],
  [{ value: null }, 'body/value'],
  [{ value: 7 }, 'body/value'],
  [{ value: 'a\0b' }, 'body/value'],
  [{ value: 'x'.repeat(4001) }, 'body/value'],
];
for (const [body, place] of badBodies) {
  test(`the body ${JSON.stringify(body).slice(0, 30)} is refused`, async () => {
    const answer = await write('a/b', body);
    assert.equal(answer.statusCode, 422);
    assert.ok(answer.json().errors.some(({ path }: { path: string }) => path === place));
  });
}

test('a value can be as long as it may, and hold any character that can be stored', async () => {
  const value = '🏠'.repeat(4000);
  assert.equal((await write('a/long', { value })).json().value, value);
  // Half a character cannot be stored; what was stored is what is answered.
  assert.equal((await write('a/half', { value: 'a\ud83db' })).json().value, 'a\ufffdb');
  assert.equal((await write('a/empty', { value: '' })).json().value, '');
});

test('a body that is no JSON, or too large, is refused', async () => {
  for (const [status, headers, payload] of [
    [400, { 'content-type': 'application/json' }, '{"value":'],
    [415, { 'content-type': 'text/plain' }, 'v'],
    [413, { 'content-type': 'application/json' }, JSON.stringify({ value: 'x'.repeat(70_000) })],
  ] as const) {
    const answer = await olena.request('PUT', '/memory/facts/a/b', {
      headers,
      payload: Buffer.from(payload),
    });
    assert.equal(answer.statusCode, status);
  }
});

const cursor = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
const badQueries = [
  'limit=0',
  'limit=1001',
  'limit=1e400',
  'limit=x',
  'cursor=',
  'cursor=x',
  `cursor=${cursor([1e300, 'a'])}`,
  `cursor=${cursor([0.5, 'a'])}`,
  `cursor=${cursor(['1', 'a'])}`,
  `cursor=${cursor([1, 'a\0'])}`,
  `cursor=${cursor([1])}`,
  'q=%00',
  `q=${'x'.repeat(201)}`,
];
for (const url of ['/memory/facts', '/memory/summary?scope=all', '/admin/memory']) {
  test(`${url} refuses what is no query of it`, async () => {
    const isSummary = url.includes('summary');
    for (const query of badQueries.filter((one) => !isSummary || !one.startsWith('q'))) {
      const answer = await admin.get(`${url}${isSummary ? '&' : '?'}${query}`);
      assert.equal(answer.statusCode, 422, query);
      assert.match(answer.json().errors[0].path, /^query(string)?\//);
    }
  });
}

test('other values of a query are refused too', async () => {
  for (const url of [
    '/memory/facts?scope=everything',
    '/memory/summary?scope=',
    '/memory/facts?category=%00',
    '/admin/memory?user_id=',
    '/admin/memory?user_id=%00',
    `/admin/memory?user_id=${'u'.repeat(256)}`,
  ]) {
    assert.equal((await admin.get(url)).statusCode, 422, url);
  }
});

test('the farthest cursors there can be have no rows, or all, and do no harm', async () => {
  for (const time of [Number.MAX_SAFE_INTEGER, -Number.MAX_SAFE_INTEGER, 0, null]) {
    for (const id of ['', "'", 'я'.repeat(200)]) {
      const answer = await admin.get(`/admin/memory?cursor=${cursor([time, id])}`);
      assert.equal(answer.statusCode, 200, answer.body);
    }
  }
});

test('whatever is sent, the service does not fail', async () => {
  const text = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 120 }),
    fc.string({ unit: 'grapheme', maxLength: 120 }),
  );
  const encoded = text.map((one) => encodeURIComponent(one.toWellFormed()));
  await fc.assert(
    fc.asyncProperty(encoded, encoded, text, async (category, key, value) => {
      const path = `${category}/${key}`;
      const answers = [
        await write(path, { value }),
        await olena.get(`/memory/facts?q=${key}&category=${category}`),
        await admin.get(`/admin/memory?q=${key}&user_id=${category}&cursor=${key}`),
        await olena.request('DELETE', `/memory/facts/${path}`),
      ];
      for (const { statusCode, body } of answers) {
        assert.ok(statusCode < 500, body);
      }
    }),
    { numRuns: 150 },
  );
});
