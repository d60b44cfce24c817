import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { before, test } from 'node:test';
import { type Browser, openAssistant } from '../helpers/assistant.ts';
import { person, SEVERAL_PEOPLE } from '../helpers/people.ts';
import { until } from '../helpers/until.ts';
import { addSessions } from '../sessions/rows.ts';

const { db, instance, signedIn } = await openAssistant(SEVERAL_PEOPLE);
const app = await instance();
const url = new URL(await app.listen({ port: 0, host: '127.0.0.1' }));
const owner = await signedIn(app, person('u-owner'));
const reader = await signedIn(app, person('u-reader', { permissions: ['svc.files.read_all'] }));

before(() => addSessions(db, { id: 's', user_id: 'u-owner' }, { id: 'legacy' }));

/** A connection with everything that comes back on it. */
async function open(): Promise<{ socket: Socket; answers: () => string }> {
  const socket = connect(Number(url.port), url.hostname);
  await once(socket, 'connect');
  let text = '';
  socket.on('data', (chunk) => {
    text += String(chunk);
  });
  return { socket, answers: () => text };
}

const head = (method: string, target: string, browser: Browser | undefined, headers = '') =>
  `${method} ${target} HTTP/1.1\r\nHost: ${url.host}\r\n${
    browser === undefined ? '' : `Cookie: svc_auth_session=${browser.sid}\r\n`
  }${headers}\r\n`;

const LENGTH = 10 * 1024 * 1024;

for (const [who, browser, target, status, code] of [
  ['nobody', undefined, '/sessions/s/files/a', 401, 'not_signed_in'],
  ['a reader', reader, '/sessions/s/files/a', 403, 'session_not_yours'],
  ['the owner of another', owner, '/sessions/legacy/files/a', 403, 'session_not_yours'],
  ['the owner of none', owner, '/sessions/none/files/a', 404, 'session_not_found'],
  ['a name that is none', owner, '/sessions/s/files/a%2fb', 422, 'validation_failed'],
  ['an empty name', owner, '/sessions/s/files/', 422, 'validation_failed'],
  ['an id with a NUL', owner, '/sessions/s%00/files/a', 422, 'validation_failed'],
  ['an empty id', owner, '/sessions//files/a', 422, 'validation_failed'],
] as const) {
  for (const framing of [`Content-Length: ${LENGTH}\r\n`, 'Transfer-Encoding: chunked\r\n']) {
    test(`${who} is told ${status} before the body is sent, ${framing.trim()}`, async () => {
      const { socket, answers } = await open();
      const first = framing.startsWith('Content') ? 'few' : '3\r\nfew\r\n';
      socket.write(head('PUT', target, browser, framing) + first);
      await until(() => answers().includes('"code"'));
      assert.match(answers(), new RegExp(`^HTTP/1\\.1 ${status} `));
      assert.ok(answers().includes(`"code":"${code}"`));
      socket.destroy();
    });
  }
}

test('what a client sends of a refused upload all the same is passed over, and it may go on', async () => {
  const { socket, answers } = await open();
  socket.write(head('PUT', '/sessions/s/files/a', reader, `Content-Length: ${LENGTH}\r\n`));
  await until(() => answers().includes('session_not_yours'));
  socket.write(Buffer.alloc(LENGTH, 'x'));
  socket.write(head('GET', '/sessions/s/files', reader, 'Connection: close\r\n'));
  await once(socket, 'close');
  assert.match(answers(), /session_not_yours[^]*HTTP\/1\.1 200 OK[^]*\[\]$/);
  assert.deepEqual(await db.selectFrom('session_files').select('name').execute(), []);
});

test('rules of the address are told of as in every other answer', async () => {
  const answer = await owner.request('PUT', '/sessions/s%00/files/a', { payload: {} });
  const { errors } = (await owner.get('/sessions/s%00/files/a')).json();
  assert.equal(errors[0].path, 'params/id');
  assert.deepEqual(answer.json().errors, errors);
});
