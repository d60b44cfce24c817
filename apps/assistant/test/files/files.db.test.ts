import assert from 'node:assert/strict';
import { hash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { beforeEach, test } from 'node:test';
import { ProblemError, type Server } from '@oselya/kit';
import { openSocket, until } from '@oselya/testing';
import { parse } from 'content-disposition';
import {
  createFileService,
  type Files,
  detectMediaType,
  TEXT_TYPE,
  parseFileName,
} from '../../src/files/files.ts';
import { registerFileRoutes } from '../../src/files/routes.ts';
import type { User } from '../../src/access/permissions.ts';
import { type Browser, openAssistant } from '../helpers/assistant.ts';
import { pages, SEVERAL_PEOPLE, signInUsers, createUser } from '../helpers/people.ts';
import { createGate } from '../helpers/scripted-model.ts';
import { createUserServer } from '../helpers/servers.ts';
import { addSessions, drainAudit } from '../conversations/stage.ts';

const assistant = await openAssistant(SEVERAL_PEOPLE);
const { db, createInstance } = assistant;
const app = await createInstance();
const secondApp = await createInstance();
const url = new URL(await app.listen({ port: 0, host: '127.0.0.1' }));
const { owner, holder, admin } = await signInUsers(assistant, app, ['svc.files.read_all']);

beforeEach(async () => {
  await db.deleteFrom('conversation_sessions').execute();
  await addSessions(db, { id: 's', user_id: 'u-owner' }, { id: 'legacy' });
  await drainAudit(db);
});

/** Sends a body with the cookies of a browser. */
const upload = (
  server: Server,
  { cookies }: Browser,
  target: string,
  { content, type = 'application/octet-stream' }: { content: Buffer; type?: string | null },
) =>
  server.inject({
    method: 'PUT',
    url: target,
    headers: type === null ? {} : { 'content-type': type },
    cookies: Object.fromEntries(cookies),
    payload: content,
  });

const buildPath = (name: string, session = 's') =>
  `/sessions/${session}/files/${encodeURIComponent(name)}`;
const putFile = (name: string, content: string | Buffer, type?: string | null) =>
  upload(app, owner, buildPath(name), {
    content: Buffer.from(content),
    ...(type !== undefined && { type }),
  });
const listNames = (response: { json: () => { name: string }[] }) =>
  response.json().map(({ name }) => name);
const buildAuditEntry = (action: string, actor_id: string, details: object) => ({
  action,
  actor_id,
  user_id: 'u-owner',
  details: { session_id: 's', ...details },
});
const countFiles = async () =>
  (await db.selectFrom('session_files').select('name').execute()).length;

test('A file is stored, replaced, downloaded as an attachment, and deleted', async () => {
  const content = randomBytes(100_000);
  const name = 'план "квартири" №5.html';
  const uploadResponse = await putFile(name, content, 'text/html');
  assert.equal(uploadResponse.statusCode, 201);
  const { updated_at, media_type, ...fields } = uploadResponse.json();
  assert.deepEqual(fields, { name, size_bytes: 100_000, sha256: hash('sha256', content) });
  assert.equal(new Date(updated_at).toISOString(), updated_at);

  const fileResponse = await owner.get(buildPath(name));
  assert.ok(fileResponse.rawPayload.equals(content));
  const { headers } = fileResponse;
  assert.equal(headers['content-type'], media_type);
  assert.equal(headers['x-content-type-options'], 'nosniff');
  assert.equal(headers['content-security-policy'], "default-src 'none'; sandbox");
  assert.equal(headers['cache-control'], 'private, no-store');
  const disposition = parse(String(headers['content-disposition']));
  assert.deepEqual([disposition.type, disposition.parameters['filename']], ['attachment', name]);

  const secondUpload = await putFile(name, 'three');
  assert.deepEqual([secondUpload.statusCode, secondUpload.json().size_bytes], [200, 5]);
  const [file, ...otherFiles] = (await owner.get('/sessions/s/files')).json();
  assert.equal(otherFiles.length, 0);
  assert.partialDeepStrictEqual(file, secondUpload.json());
  assert.ok(file.updated_at >= file.created_at);

  // Both normalization forms of a name denote the same file.
  await putFile('їжак.txt'.normalize('NFD'), 'a');
  assert.deepEqual((await putFile('їжак.txt', 'b')).statusCode, 200);
  assert.deepEqual((await owner.request('DELETE', buildPath(name))).json(), { ok: true });
  for (const method of ['DELETE', 'GET'] as const) {
    const response = await owner.request(method, buildPath(name));
    assert.deepEqual([response.statusCode, response.json().code], [404, 'file_not_found']);
  }
  assert.deepEqual(listNames(await owner.get('/sessions/s/files')), ['їжак.txt']);
});

test('Bodies of any type and up to 10 MiB are stored unchanged', async () => {
  const form = 'multipart/form-data; boundary=x';
  for (const type of ['application/json', 'text/plain', form, 'image/png', '*/*', null]) {
    assert.equal((await putFile(`of ${type?.[0]}`, '{not json', type)).statusCode, 201);
    assert.equal((await owner.get(buildPath(`of ${type?.[0]}`))).body, '{not json');
    assert.equal((await putFile('empty', '', type)).json().size_bytes, 0);
    await db.deleteFrom('session_files').execute();
  }
  const content = Buffer.alloc(10 * 1024 * 1024, 7);
  assert.equal((await putFile('big', content)).statusCode, 201);
  assert.equal((await owner.get(buildPath('big'))).rawPayload.length, content.length);
  const rejection = await putFile('bigger', Buffer.concat([content, Buffer.from('!')]));
  assert.deepEqual([rejection.statusCode, rejection.json().code], [413, 'body_too_large']);
  assert.equal((await owner.get(buildPath('bigger'))).statusCode, 404);
});

test('Files have pages in the order of their names', async () => {
  const names = ['a', 'b', 'c', 'd', 'e', 'Ж "ї" №'];
  for (const name of names) await putFile(name, 'x');
  const fullResponse = await owner.get('/sessions/s/files');
  assert.deepEqual(listNames(fullResponse).toSorted(), names.toSorted());
  assert.equal(fullResponse.headers['link'], undefined);
  const responses = await pages(owner, '/sessions/s/files?limit=4');
  assert.deepEqual(
    responses.map((page) => listNames(page).length),
    [4, 2],
  );
  assert.deepEqual(responses.flatMap(listNames), listNames(fullResponse));
  const nul = Buffer.from(JSON.stringify('a\0')).toString('base64url');
  for (const query of ['limit=0', 'limit=101', 'cursor=x', `cursor=${nul}`]) {
    assert.equal((await owner.get(`/sessions/s/files?${query}`)).statusCode, 422, query);
  }
});

test('Access to files of other users is recorded', async () => {
  await putFile('a', 'x');
  const requestAll = async (browser: Browser) => {
    await browser.get('/sessions/s/files');
    await browser.get(buildPath('a'));
    await upload(app, browser, buildPath('b'), { content: Buffer.from('x') });
    await browser.request('DELETE', buildPath('b'));
  };
  await requestAll(owner);
  assert.deepEqual(await drainAudit(db), []);
  await requestAll(holder);
  await requestAll(admin);
  const readEntries = ['u-holder', 'u-admin'].map((reader) => [
    buildAuditEntry('others_data_read', reader, { data: 'session_files' }),
    buildAuditEntry('others_data_read', reader, { data: 'session_file', name: 'a' }),
  ]);
  const file = { data: 'session_file', name: 'b' };
  assert.deepEqual(await drainAudit(db), [
    ...readEntries.flat(),
    buildAuditEntry('others_data_changed', 'u-admin', file),
    buildAuditEntry('others_data_changed', 'u-admin', { ...file, deleted: true }),
  ]);
});

/** Opens a connection and collects the server's responses. */
async function openConnection(): Promise<{ socket: Socket; getReceivedText: () => string }> {
  const socket = await openSocket(url.href);
  socket.on('error', () => undefined);
  let text = '';
  socket.on('data', (chunk) => {
    text += String(chunk);
  });
  return { socket, getReceivedText: () => text };
}

const buildHead = (method: string, target: string, browser: Browser | undefined, headers = '') =>
  `${method} ${target} HTTP/1.1\r\nHost: ${url.host}\r\n${
    browser === undefined ? '' : `Cookie: svc_auth_session=${browser.sid}\r\n`
  }${headers}\r\n`;

const CONTENT_LENGTH = 10 * 1024 * 1024;
const LENGTH_HEADER = `Content-Length: ${CONTENT_LENGTH}\r\n`;
const CHUNKED_HEADER = 'Transfer-Encoding: chunked\r\n';

test('An upload is rejected by its path before its body is sent', async () => {
  for (const [browser, target, status, code] of [
    [undefined, '/sessions/s/files/a', 401, 'not_signed_in'],
    [holder, '/sessions/s/files/a', 403, 'session_not_yours'],
    [owner, '/sessions/legacy/files/a', 403, 'session_not_yours'],
    [owner, '/sessions/none/files/a', 404, 'session_not_found'],
    [owner, '/sessions/s/files/a%2fb', 422, 'validation_failed'],
    [owner, '/sessions/s/files/', 422, 'validation_failed'],
    [owner, '/sessions/s%00/files/a', 422, 'validation_failed'],
    [owner, '/sessions//files/a', 422, 'validation_failed'],
  ] as const) {
    for (const [headers, body] of [
      [LENGTH_HEADER, 'few'],
      [CHUNKED_HEADER, '3\r\nfew\r\n'],
    ] as const) {
      const { socket, getReceivedText } = await openConnection();
      socket.write(buildHead('PUT', target, browser, headers) + body);
      await until(() => getReceivedText().includes('"code"'));
      assert.match(getReceivedText(), new RegExp(`^HTTP/1\\.1 ${status} `));
      assert.ok(getReceivedText().includes(`"code":"${code}"`));
      socket.destroy();
    }
  }
  // The server skips the body, and the connection serves the next request.
  const { socket, getReceivedText } = await openConnection();
  socket.write(buildHead('PUT', '/sessions/s/files/a', holder, LENGTH_HEADER));
  await until(() => getReceivedText().includes('session_not_yours'));
  socket.write(Buffer.alloc(CONTENT_LENGTH, 'x'));
  socket.write(buildHead('GET', '/sessions/s/files', holder, 'Connection: close\r\n'));
  await once(socket, 'close');
  assert.match(getReceivedText(), /session_not_yours[^]*HTTP\/1\.1 200 OK[^]*\[\]$/);
  assert.equal(await countFiles(), 0);
});

test('An aborted or too large upload stores nothing', async () => {
  const connectionEvent = once(app.server, 'connection');
  const partialConnection = await openConnection();
  const [serverSocket]: Socket[] = await connectionEvent;
  assert.ok(serverSocket);
  partialConnection.socket.write(
    buildHead('PUT', buildPath('part'), owner, LENGTH_HEADER) + 'x'.repeat(100_000),
  );
  await until(() => serverSocket.bytesRead > 100_000);
  partialConnection.socket.destroy();
  await until(() => serverSocket.destroyed);
  const { socket, getReceivedText } = await openConnection();
  const mebibyte = `100000\r\n${'x'.repeat(0x100000)}\r\n`;
  socket.write(buildHead('PUT', buildPath('big'), owner, CHUNKED_HEADER) + mebibyte.repeat(11));
  await until(() => getReceivedText() !== '');
  assert.match(getReceivedText(), /^HTTP\/1\.1 413 /);
  socket.destroy();
  assert.equal(await countFiles(), 0);
});

test('Concurrent uploads of one file store exactly one content', async () => {
  const contents = Array.from({ length: 12 }, (_, index) => Buffer.alloc(50_000 + index, index));
  const responses = await Promise.all(
    contents.map((content, index) =>
      upload(index % 2 === 0 ? app : secondApp, owner, buildPath('a'), { content }),
    ),
  );
  assert.equal(responses.filter(({ statusCode }) => statusCode === 201).length, 1);
  const storedContent = (await owner.get(buildPath('a'))).rawPayload;
  assert.ok(contents.some((content) => content.equals(storedContent)));
  const [file] = (await owner.get('/sessions/s/files')).json();
  assert.deepEqual(
    [file.size_bytes, file.sha256],
    [storedContent.length, hash('sha256', storedContent)],
  );
});

test('A session has at most a hundred files', async () => {
  const content = Buffer.from('x');
  const rows = Array.from({ length: 98 }, (_, index) => ({
    session_id: 's',
    name: `file-${index}`,
    size_bytes: 1,
    sha256: '',
    content,
  }));
  await db.insertInto('session_files').values(rows).execute();
  const responses = await Promise.all(
    Array.from({ length: 10 }, (_, index) =>
      upload(index % 2 === 0 ? app : secondApp, owner, buildPath(`new-${index}`), { content }),
    ),
  );
  const rejections = responses.filter(({ statusCode }) => statusCode === 409);
  assert.equal(rejections.length, 8);
  for (const response of rejections) assert.equal(response.json().code, 'too_many_files');
  assert.equal(await countFiles(), 100);
  assert.equal((await putFile('file-0', 'x')).statusCode, 200);
  await owner.request('DELETE', buildPath('file-0'));
  assert.equal((await putFile('next', 'x')).statusCode, 201);
});

test('An upload during the deletion of its session leaves no file', async () => {
  for (let round = 0; round < 3; round += 1) {
    await db.deleteFrom('conversation_sessions').execute();
    await addSessions(db, { id: 's', user_id: 'u-owner' });
    const [uploadResponse, deletion] = await Promise.all([
      putFile('a', 'x'),
      owner.request('DELETE', '/sessions/s', { app: secondApp }),
    ]);
    assert.ok([201, 404].includes(uploadResponse.statusCode), uploadResponse.body);
    assert.equal(deletion.statusCode, 200);
    assert.equal(await countFiles(), 0);
  }
});

test('The files of a user have a maximum total size', async () => {
  const files = createFileService({ db, maxOwnerBytes: 100 });
  const user = createUser('u-1');
  const adminUser = { ...createUser('u-3'), role: 'admin' as const };
  const write = async (writer: User, sessionId: string, name: string, bytes: number) => {
    try {
      await files.writeFile(writer, { sessionId, name, content: Buffer.alloc(bytes) });
      return 'ok';
    } catch (error) {
      if (error instanceof ProblemError) return error.code;
      throw error;
    }
  };
  const sessionIds = Array.from({ length: 20 }, (_, index) => `s-${index}`);
  await addSessions(db, ...['a', 'b', ...sessionIds].map((id) => ({ id, user_id: 'u-1' })), {
    id: 'c',
    user_id: 'u-2',
  });
  for (const [writer, session, name, bytes, outcome] of [
    [user, 'a', 'one', 60, 'ok'],
    [user, 'b', 'two', 41, 'too_much_stored'],
    [adminUser, 'b', 'two', 41, 'too_much_stored'],
    [user, 'b', 'two', 40, 'ok'],
    [user, 'a', 'one', 50, 'ok'],
    [user, 'a', 'one', 61, 'too_much_stored'],
    [createUser('u-2'), 'c', 'two', 100, 'ok'],
    [adminUser, 'legacy', 'one', 90, 'ok'],
    [adminUser, 'legacy', 'two', 90, 'ok'],
  ] as const) {
    assert.equal(await write(writer, session, name, bytes), outcome, `${session}/${name} ${bytes}`);
  }
  await files.deleteFile(user, { sessionId: 'a', name: 'one' });
  const outcomes = await Promise.all(sessionIds.map((id) => write(user, id, 'x', 20)));
  assert.equal(outcomes.filter((outcome) => outcome === 'ok').length, 3);
});

const invalidNames = [
  ...'|.|..|a/b|../secret|a\\b|a\0b|a\nb|.env|plan.|plan | plan'.split('|'),
  ...'NUL|con.txt|aux .txt|Com1|lpt².log|CONOUT$'.split('|'),
  ...[0x85, 0x2028, 0x202e].map((code) => `a${String.fromCodePoint(code)}b`),
  'plan\u00a0',
  'a'.repeat(201),
  'ж'.repeat(101),
];
const validNames = [
  ...'plan.pdf|план квартири (2).pdf|a|-rf|a..b|console.txt|com10|%2e%2e'.split('|'),
  ...'nul-and-void.txt|👨‍👩‍👧 сім’я.jpg'.split('|'),
  'ж'.repeat(100),
];

test('A file name is one path segment that all file systems accept', () => {
  for (const name of invalidNames) {
    assert.throws(
      () => parseFileName(name),
      (error) =>
        error instanceof ProblemError &&
        error.code === 'validation_failed' &&
        error.errors?.every(({ path }) => path === 'params/name') === true,
      name,
    );
  }
  for (const name of validNames) assert.equal(parseFileName(name), name);
  assert.equal(parseFileName('їжак.txt'.normalize('NFD')), 'їжак.txt');
});

test('The content determines the media type, and markup is text', async () => {
  for (const [content, type] of [
    ['Дві кімнати', TEXT_TYPE],
    ['', TEXT_TYPE],
    ['<!doctype html><script>alert(1)</script>', TEXT_TYPE],
    ['<?xml version="1.0"?><svg onload="alert(1)"/>', TEXT_TYPE],
    ['#!/bin/sh\nrm -rf /\n', TEXT_TYPE],
    [Buffer.from([0xff, 0x00, 0xfe, 0x81]), 'application/octet-stream'],
    ['a\0b', 'application/octet-stream'],
    ['%PDF-1.7\n', 'application/pdf'],
    [Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex'), 'image/png'],
  ] as const) {
    assert.equal(await detectMediaType(Buffer.from(content as string)), type);
  }
});

test('A user has at most six concurrent transfers, and other users are served in the meantime', async () => {
  const server = await createUserServer();
  const readGate = createGate();
  let readCount = 0;
  const files = {
    readFile: async () => {
      readCount += 1;
      await readGate.opened;
      return { content: Buffer.from('x'), media_type: 'text/plain' };
    },
  };
  await registerFileRoutes(server, files as unknown as Files);
  const readFile = async (user: string) =>
    server.inject({ url: '/sessions/s/files/a', headers: { 'x-user': user } });

  const firstRequests = Array.from({ length: 6 }, () => readFile('u-olena'));
  await until(() => readCount === 6);
  const seventhResponse = await readFile('u-olena');
  assert.equal(seventhResponse.statusCode, 503);
  assert.equal(seventhResponse.headers['retry-after'], '2');
  assert.match(seventhResponse.json().detail, /^6 of your files .*then try again/);
  const otherRequest = readFile('u-taras');
  await until(() => readCount === 7);

  readGate.open();
  for (const response of await Promise.all([...firstRequests, otherRequest]))
    assert.equal(response.statusCode, 200);
  assert.equal((await readFile('u-olena')).statusCode, 200);
});
