import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { beforeEach, test } from 'node:test';
import { parse } from 'content-disposition';
import fc from 'fast-check';
import { openAssistant } from '../helpers/assistant.ts';
import { SEVERAL_PEOPLE, signInEverybody } from '../helpers/people.ts';
import { pages } from '../memory/people.ts';
import { addSessions, takeAudit } from '../sessions/rows.ts';
import { upload } from './upload.ts';

const assistant = await openAssistant(SEVERAL_PEOPLE);
const { db, instance } = assistant;
const app = await instance();
const { owner, stranger, holder, admin } = await signInEverybody(assistant, app, [
  'svc.files.read_all',
]);

beforeEach(async () => {
  await db.deleteFrom('conversation_sessions').execute();
  await addSessions(db, { id: 's', user_id: 'u-owner' }, { id: 'legacy' });
  await takeAudit(db);
});

const path = (name: string, session = 's') =>
  `/sessions/${session}/files/${encodeURIComponent(name)}`;
const sha256 = (content: Buffer) => createHash('sha256').update(content).digest('hex');

const line = (action: string, actor_id: string, details: object) => ({
  action,
  actor_id,
  user_id: 'u-owner',
  details: { session_id: 's', ...details },
});

test('a file comes back as it went in, as an attachment that no browser runs or keeps', async () => {
  const content = randomBytes(100_000);
  const name = 'план "квартири" №5.html';
  const stored = await upload(app, owner, path(name), { content, type: 'text/html' });
  assert.equal(stored.statusCode, 201);
  const { updated_at, media_type, ...rest } = stored.json();
  assert.deepEqual(rest, { name, size_bytes: 100_000, sha256: sha256(content) });
  assert.equal(new Date(updated_at).toISOString(), updated_at);

  const answer = await owner.get(path(name));
  assert.equal(answer.statusCode, 200);
  assert.ok(answer.rawPayload.equals(content));
  const { headers } = answer;
  assert.equal(headers['content-type'], media_type);
  assert.equal(headers['x-content-type-options'], 'nosniff');
  assert.equal(headers['content-security-policy'], "default-src 'none'; sandbox");
  assert.equal(headers['cache-control'], 'private, no-store');
  const disposition = parse(String(headers['content-disposition']));
  assert.deepEqual([disposition.type, disposition.parameters['filename']], ['attachment', name]);
});

test('a file that is sent again replaces the one of its name', async () => {
  const first = await upload(app, owner, path('a.txt'), { content: Buffer.from('one') });
  const again = await upload(app, owner, path('a.txt'), { content: Buffer.from('three') });
  assert.deepEqual([first.statusCode, again.statusCode], [201, 200]);
  assert.equal(again.json().size_bytes, 5);
  assert.equal((await owner.get(path('a.txt'))).body, 'three');
  const [file, ...more] = (await owner.get('/sessions/s/files')).json();
  assert.equal(more.length, 0);
  assert.deepEqual(Object.keys(file).toSorted(), [
    'created_at',
    'media_type',
    'name',
    'sha256',
    'size_bytes',
    'updated_at',
  ]);
  assert.ok(file.updated_at >= file.created_at);
});

for (const type of [
  'application/json',
  'text/plain',
  'multipart/form-data; boundary=x',
  'application/x-www-form-urlencoded',
  'image/png',
  '*/*',
  'application/octet-stream',
  null,
]) {
  test(`a body of the type ${type} is taken as it is`, async () => {
    const content = Buffer.from('{not json');
    const answer = await upload(app, owner, path('x'), { content, type });
    assert.equal(answer.statusCode, 201);
    assert.equal((await owner.get(path('x'))).body, '{not json');
  });
}

test('an empty file is a file, with a type or without', async () => {
  for (const type of ['text/plain', null]) {
    const answer = await upload(app, owner, path('empty'), { content: Buffer.alloc(0), type });
    assert.equal(answer.json().size_bytes, 0, answer.body);
    assert.equal(answer.json().sha256, sha256(Buffer.alloc(0)));
  }
  assert.equal((await owner.get(path('empty'))).rawPayload.length, 0);
});

test('ten mebibytes are a file, and a byte more is 413', async () => {
  const content = Buffer.alloc(10 * 1024 * 1024, 7);
  assert.equal((await upload(app, owner, path('big'), { content })).statusCode, 201);
  assert.equal((await owner.get(path('big'))).rawPayload.length, content.length);
  const larger = Buffer.concat([content, Buffer.from('!')]);
  const answer = await upload(app, owner, path('bigger'), { content: larger });
  assert.deepEqual([answer.statusCode, answer.json().code], [413, 'body_too_large']);
  assert.equal((await owner.get(path('bigger'))).statusCode, 404);
});

test('elsewhere a body is still JSON, and small', async () => {
  const answer = await upload(app, owner, '/sessions/s', {
    content: Buffer.from('x'),
    type: 'a/b',
    method: 'PATCH',
  });
  assert.equal(answer.statusCode, 415);
  const large = Buffer.from(JSON.stringify({ name: 'a'.repeat(70_000) }));
  const type = 'application/json';
  const refused = await upload(app, owner, '/sessions/s', {
    content: large,
    type,
    method: 'PATCH',
  });
  assert.equal(refused.statusCode, 413);
});

test('names in both normal forms are one file', async () => {
  const name = 'їжак.txt';
  await upload(app, owner, path(name.normalize('NFD')), { content: Buffer.from('a') });
  const answer = await upload(app, owner, path(name), { content: Buffer.from('b') });
  assert.deepEqual([answer.statusCode, answer.json().name], [200, name]);
  assert.equal((await owner.get(path(name.normalize('NFD')))).body, 'b');
});

test('what is no name is 422 with the rule, for every method', async () => {
  const bad = path('a/b');
  const answers = [
    await upload(app, owner, bad, { content: Buffer.from('a') }),
    await owner.get(bad),
    await owner.request('DELETE', bad),
  ];
  for (const answer of answers) {
    assert.equal(answer.statusCode, 422);
    assert.deepEqual(answer.json().errors, [
      { path: 'params/name', message: 'must not contain / or \\' },
    ]);
  }
});

test('a file, and only it, is deleted', async () => {
  for (const name of ['a', 'b']) {
    await upload(app, owner, path(name), { content: Buffer.from(name) });
  }
  assert.deepEqual((await owner.request('DELETE', path('a'))).json(), { ok: true });
  const gone = await owner.request('DELETE', path('a'));
  assert.deepEqual([gone.statusCode, gone.json().code], [404, 'file_not_found']);
  assert.equal((await owner.get(path('a'))).json().code, 'file_not_found');
  const list: { name: string }[] = (await owner.get('/sessions/s/files')).json();
  assert.deepEqual(
    list.map(({ name }) => name),
    ['b'],
  );
});

test('files come in pages by their names, all of them unless less is asked for', async () => {
  const names = ['a', 'b', 'c', 'd', 'e', 'Ж "ї" №'];
  for (const name of names) await upload(app, owner, path(name), { content: Buffer.from('x') });
  const whole = await owner.get('/sessions/s/files');
  assert.deepEqual(namesOf(whole).toSorted(), names.toSorted());
  assert.equal(whole.headers['link'], undefined);
  for (const limit of [1, 4, 6, 100]) {
    const answers = await pages(owner, `/sessions/s/files?limit=${limit}`);
    assert.deepEqual(answers.flatMap(namesOf), namesOf(whole));
    assert.equal(answers.length, Math.ceil(names.length / limit));
  }
  for (const query of ['limit=0', 'limit=101', 'cursor=x', `cursor=${NUL_CURSOR}`]) {
    assert.equal((await owner.get(`/sessions/s/files?${query}`)).statusCode, 422, query);
  }
});

const namesOf = (answer: { json: () => { name: string }[] }) =>
  answer.json().map(({ name }) => name);

const NUL_CURSOR = Buffer.from(JSON.stringify('a\0')).toString('base64url');

test('who may do what: the owner and admins everything, permission holders may read', async () => {
  const content = Buffer.from('x');
  await upload(app, owner, path('a'), { content });
  const statuses = async (browser: typeof owner, session: string) => [
    (await browser.get(`/sessions/${session}/files`)).statusCode,
    (await browser.get(path('a', session))).statusCode,
    (await upload(app, browser, path('b', session), { content })).statusCode,
    (await browser.request('DELETE', path('b', session))).statusCode,
  ];
  assert.deepEqual(await statuses(owner, 's'), [200, 200, 201, 200]);
  assert.deepEqual(await statuses(stranger, 's'), [403, 403, 403, 403]);
  assert.deepEqual(await statuses(holder, 's'), [200, 200, 403, 403]);
  assert.deepEqual(await statuses(admin, 's'), [200, 200, 201, 200]);
  for (const browser of [owner, stranger, holder]) {
    assert.deepEqual(await statuses(browser, 'legacy'), [403, 403, 403, 403]);
    assert.deepEqual(await statuses(browser, 'none'), [404, 404, 404, 404]);
  }
  assert.deepEqual(await statuses(admin, 'legacy'), [200, 404, 201, 200]);
});

test('a file that is there is not deleted by those who may only read it, or not even that', async () => {
  await upload(app, owner, path('a'), { content: Buffer.from('x') });
  for (const browser of [stranger, holder]) {
    const answer = await browser.request('DELETE', path('a'));
    assert.deepEqual([answer.statusCode, answer.json().code], [403, 'session_not_yours']);
  }
  assert.equal((await owner.get(path('a'))).body, 'x');
});

test('what others do with files is recorded, and what the owner does is not', async () => {
  await upload(app, owner, path('a'), { content: Buffer.from('x') });
  await owner.get(path('a'));
  await owner.get('/sessions/s/files');
  await stranger.get(path('a'));
  assert.deepEqual(await takeAudit(db), []);

  await holder.get('/sessions/s/files');
  await holder.get(path('a'));
  await upload(app, admin, path('b'), { content: Buffer.from('x') });
  await admin.request('DELETE', path('b'));
  const file = { data: 'session_file', name: 'b' };
  assert.deepEqual(await takeAudit(db), [
    line('others_data_read', 'u-holder', { data: 'session_files' }),
    line('others_data_read', 'u-holder', { data: 'session_file', name: 'a' }),
    line('others_data_changed', 'u-admin', file),
    line('others_data_changed', 'u-admin', { ...file, deleted: true }),
  ]);
});

test('any text as a name is a file that comes back, or a problem', async () => {
  const anything = fc.oneof(
    fc.string({ unit: 'binary', minLength: 1, maxLength: 40 }),
    fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }),
    fc.constantFrom('ж'.repeat(100), 'a'.repeat(200), '%2f', '..;', 'a?b#c', '%', 'CON', 'ﬁ'),
  );
  const content = Buffer.from('x');
  let stored = 0;
  await fc.assert(
    fc.asyncProperty(anything, async (text) => {
      const put = await upload(app, owner, path(text), { content });
      assert.ok([201, 404, 422].includes(put.statusCode), `${put.statusCode} ${put.body}`);
      if (put.statusCode !== 201) return;
      stored += 1;
      const got = await owner.get(path(text));
      assert.equal(got.body, 'x');
      const disposition = parse(String(got.headers['content-disposition']));
      assert.equal(disposition.parameters['filename'], put.json().name);
      const deleted = await owner.request('DELETE', path(put.json().name));
      assert.equal(deleted.statusCode, 200);
    }),
    { numRuns: 150 },
  );
  assert.ok(stored > 30, `${stored} were names`);
});
