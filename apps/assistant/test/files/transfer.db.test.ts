import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { beforeEach, test } from 'node:test';
import { openAssistant } from '../helpers/assistant.ts';
import { person, SEVERAL_PEOPLE } from '../helpers/people.ts';
import { until } from '../helpers/until.ts';
import { addSessions } from '../sessions/rows.ts';
import { upload } from './upload.ts';

const { db, instance, signedIn } = await openAssistant(SEVERAL_PEOPLE);
const app = await instance();
const second = await instance();
const url = new URL(await app.listen({ port: 0, host: '127.0.0.1' }));
const owner = await signedIn(app, person('u-owner'));

beforeEach(async () => {
  await db.deleteFrom('conversation_sessions').execute();
  await addSessions(db, { id: 's', user_id: 'u-owner' });
});

const countFiles = async () =>
  (await db.selectFrom('session_files').select('name').execute()).length;

/** Sends the first bytes of a request, as they go over the wire. */
async function begin(method: string, target: string, body: string, headers = ''): Promise<Socket> {
  const socket = connect(Number(url.port), url.hostname);
  await once(socket, 'connect');
  const head = `${method} ${target} HTTP/1.1\r\nHost: ${url.host}\r\nCookie: svc_auth_session=${owner.sid}\r\n`;
  socket.write(`${head}${headers}\r\n${body}`);
  return socket;
}

/** Everything that comes back until the server closes. */
async function answerOf(socket: Socket): Promise<string> {
  let text = '';
  for await (const chunk of socket) text += String(chunk);
  return text;
}

test('an upload that breaks off leaves nothing, with a length or in chunks', async () => {
  for (const [headers, body] of [
    ['Content-Length: 1000000\r\n', 'x'.repeat(100_000)],
    ['Transfer-Encoding: chunked\r\n', `${(100_000).toString(16)}\r\n${'x'.repeat(100_000)}\r\n`],
  ] as const) {
    const accepted = once(app.server, 'connection');
    const socket = await begin('PUT', '/sessions/s/files/part', body, headers);
    const [received]: Socket[] = await accepted;
    assert.ok(received);
    await until(() => received.bytesRead > body.length);
    socket.destroy();
    await until(() => received.destroyed);
    assert.equal(await countFiles(), 0);
  }
  const answer = await upload(app, owner, '/sessions/s/files/part', { content: Buffer.from('x') });
  assert.equal(answer.statusCode, 201);
});

test('more than the limit in chunks is cut off with 413', async () => {
  const mebibyte = `100000\r\n${'x'.repeat(0x100000)}\r\n`;
  const headers = 'Transfer-Encoding: chunked\r\n';
  const socket = await begin('PUT', '/sessions/s/files/big', mebibyte.repeat(11), headers);
  socket.on('error', () => undefined);
  const [chunk] = await once(socket, 'data');
  assert.match(String(chunk), /^HTTP\/1\.1 413 /);
  socket.destroy();
  assert.equal(await countFiles(), 0);
});

for (const [target, status] of [
  ['/sessions/s/files/..', 422],
  ['/sessions/s/files/%2e%2e', 422],
  ['/sessions/s/files/.', 422],
  ['/sessions/s/files/..%2f..%2fsecret', 422],
  ['/sessions/s/files/..%5csecret', 422],
  ['/sessions/s/files/a%00b', 422],
  ['/sessions/s/files/%', 400],
  ['/sessions/s/files/%ff', 400],
  ['/sessions/s/files/%c0%ae', 400],
  ['/sessions/s/files/', 422],
  ['/sessions/s/files/../../../etc/passwd', 404],
  ['/sessions//files/a', 422],
] as const) {
  test(`GET ${target} as it is written is ${status}`, async () => {
    const socket = await begin('GET', target, '', 'Connection: close\r\n');
    assert.match(await answerOf(socket), new RegExp(`^HTTP/1\\.1 ${status} `));
  });
}

test('of those who send one file at once each is whole, and one was the first', async () => {
  const contents = Array.from({ length: 12 }, (_, index) => Buffer.alloc(50_000 + index, index));
  const answers = await Promise.all(
    contents.map((content, index) =>
      upload(index % 2 === 0 ? app : second, owner, '/sessions/s/files/a', { content }),
    ),
  );
  const statuses = answers.map(({ statusCode }) => statusCode);
  assert.equal(statuses.filter((status) => status === 201).length, 1);
  assert.equal(statuses.filter((status) => status === 200).length, 11);
  const [file] = (await owner.get('/sessions/s/files')).json();
  const stored = await owner.get('/sessions/s/files/a');
  const [first] = stored.rawPayload;
  assert.ok(stored.rawPayload.equals(contents[first ?? 0] ?? Buffer.alloc(0)));
  const told = answers.map((answer) => answer.json()).find(({ sha256 }) => sha256 === file.sha256);
  assert.equal(told?.size_bytes, stored.rawPayload.length);
});

test('a session takes a hundred files, however many come at once', async () => {
  const names = Array.from({ length: 98 }, (_, index) => `file-${index}`);
  const content = Buffer.from('x');
  await db
    .insertInto('session_files')
    .values(names.map((name) => ({ session_id: 's', name, size_bytes: 1, sha256: '', content })))
    .execute();
  const answers = await Promise.all(
    Array.from({ length: 10 }, (_, index) =>
      upload(index % 2 === 0 ? app : second, owner, `/sessions/s/files/new-${index}`, { content }),
    ),
  );
  const refused = answers.filter(({ statusCode }) => statusCode === 409);
  assert.equal(refused.length, 8);
  for (const answer of refused) assert.equal(answer.json().code, 'too_many_files');
  assert.equal(await countFiles(), 100);

  const replaced = await upload(app, owner, '/sessions/s/files/file-0', { content });
  assert.equal(replaced.statusCode, 200, 'what is there can still be replaced');
  await owner.request('DELETE', '/sessions/s/files/file-0');
  const next = await upload(app, owner, '/sessions/s/files/next', { content });
  assert.equal(next.statusCode, 201);
});

test('a file that comes while its session is deleted goes with it, or is 404', async () => {
  for (let round = 0; round < 5; round += 1) {
    await db.deleteFrom('conversation_sessions').execute();
    await addSessions(db, { id: 's', user_id: 'u-owner' });
    const [put, deleted] = await Promise.all([
      upload(app, owner, '/sessions/s/files/a', { content: Buffer.from('x') }),
      owner.request('DELETE', '/sessions/s', { app: second }),
    ]);
    assert.ok([201, 404].includes(put.statusCode), put.body);
    assert.equal(deleted.statusCode, 200);
    assert.equal(await countFiles(), 0);
  }
});
