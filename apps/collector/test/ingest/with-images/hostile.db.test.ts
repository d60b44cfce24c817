import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, test } from 'node:test';
import fc from 'fast-check';
import { picture } from '../../images/pictures.ts';
import { startCollector } from '../../support/collector.ts';
import { openDatabase } from '../../support/database.ts';
import { formOf, sendForm, temporaryFiles } from '../../support/form.ts';
import { startModelServer } from '../../support/model-server.ts';
import { payloadOf } from '../../support/payload.ts';
import { exchange, openDescriptors, openSocket, requestHead } from '../../support/raw-http.ts';
import { until } from '../../support/until.ts';

const PATH = '/api/v1/ingest/with-images';
const KB = 1024;
const database = await openDatabase();
const { db } = database;
const folder = await mkdtemp(join(tmpdir(), 'oselya-hostile-'));
after(() => rm(folder, { recursive: true, force: true }));
const settings = {
  DATA_DIR: folder,
  COLLECTOR_WORKER: 'false',
  COLLECTOR_INGEST_PER_MINUTE: '0',
};
const collector = await startCollector(database, settings);
const bytes = await picture('png', { colour: 'orchid' });

const BOUNDARY = 'oselya-boundary';
const TYPE = `multipart/form-data; boundary=${BOUNDARY}`;

type Part = { headers: string; content: Buffer | string };
const part = (name: string, content: Buffer | string, more = ''): Part => ({
  headers: `Content-Disposition: form-data; name="${name}"${more}`,
  content,
});
const image = (name: string, content: Buffer | string = bytes) =>
  part('images', content, `; filename="${name}"`);
const metadata = () => part('metadata', JSON.stringify(payloadOf()));

function bodyOf(parts: readonly Part[], { end = `--${BOUNDARY}--\r\n` } = {}): Buffer {
  const pieces = parts.flatMap(({ headers, content }) => [
    Buffer.from(`--${BOUNDARY}\r\n${headers}\r\n\r\n`),
    Buffer.from(content),
    Buffer.from('\r\n'),
  ]);
  return Buffer.concat([...pieces, Buffer.from(end)]);
}

const send = (body: Buffer, type = TYPE) => exchange(collector.url, PATH, { type, body });
const many = (one: Part) => Array<Part>(10_000).fill(one);

const count = async () =>
  (
    await db
      .selectFrom('raw_data')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .executeTakeFirstOrThrow()
  ).count;

const noFiles = () =>
  until('no temporary file', async () => (await temporaryFiles(folder)).length === 0);

afterEach(async () => {
  await noFiles();
  assert.equal((await collector.get('/health/live')).status, 200);
});

test('what is no form, or not all of one, is refused with 400, 413, 415 or 422', async () => {
  const whole = bodyOf([metadata(), image('a.png')]);
  const nameless = { headers: 'X-Nothing: here', content: 'hidden' };
  const cases: [string, number, Buffer, string?][] = [
    ['no boundary', 400, whole, 'multipart/form-data'],
    ['an empty boundary', 400, whole, 'multipart/form-data; boundary='],
    ['another boundary', 400, whole, 'multipart/form-data; boundary=other'],
    ['another kind of multipart', 415, whole, `multipart/mixed; boundary=${BOUNDARY}`],
    ['nothing', 422, Buffer.alloc(0)],
    ['only the end', 422, Buffer.from(`--${BOUNDARY}--\r\n`)],
    ['no end', 400, bodyOf([metadata(), image('a.png')], { end: '' })],
    ['the end in the midst of a file', 400, whole.subarray(0, whole.length - 60)],
    ['the end in the midst of the field', 400, whole.subarray(0, 150)],
    ['the end in the midst of a head', 400, Buffer.from(`--${BOUNDARY}\r\nContent-Dispo`)],
    ['line feeds alone', 400, Buffer.from(whole.toString('latin1').replaceAll('\r\n', '\n'))],
    ['10,000 pictures', 422, bodyOf([metadata(), ...many(image('a', ''))])],
    ['10,000 other fields', 422, bodyOf([metadata(), ...many(part('other', ''))])],
    ['10,000 fields', 422, bodyOf([metadata(), ...many(part('metadata', '{}'))])],
    ['10,000 parts without a name', 413, bodyOf([...many(nameless), metadata()])],
    ['a field of a prototype', 400, bodyOf([metadata(), part('__proto__', 'x')])],
    [
      'a part without a name',
      422,
      bodyOf([{ headers: 'Content-Disposition: form-data', content: '' }]),
    ],
  ];
  const records = await count();
  for (const [name, status, body, type] of cases) {
    const answer = await send(body, type);
    assert.equal(answer.status, status, `${name}: ${answer.text}`);
    await noFiles();
  }
  assert.equal(await count(), records);
});

test('heads of any size do no harm', async () => {
  const long = 'x'.repeat(1024 * KB);
  const fields = Array.from({ length: 5000 }, (_, n) => `X-${n}: y`).join('\r\n');
  for (const headers of [
    `Content-Disposition: form-data; name="${long}"`,
    `X-Long: ${long}\r\nContent-Disposition: form-data; name="images"; filename="a.png"`,
    `${fields}\r\nContent-Disposition: form-data; name="images"; filename="a.png"`,
    `Content-Disposition: form-data; name="images"; filename="${long}"`,
  ]) {
    const { status, text } = await send(bodyOf([metadata(), { headers, content: bytes }]));
    assert.ok([200, 400, 413, 422].includes(status), text);
  }
});

test('a file name is never a path', async () => {
  const names = [
    '../../../escaped.png',
    '/escaped.png',
    'C:\\\\escaped.png',
    'a\0b.png',
    '..',
    '.',
  ];
  const before = await readdir(folder, { recursive: true });
  const { status, text } = await send(bodyOf([metadata(), ...names.map((name) => image(name))]));
  assert.equal(status, 200, text);
  const added = (await readdir(folder, { recursive: true })).filter(
    (name) => !before.includes(name),
  );
  assert.ok(
    added.every((name) => /^images(\/|$)/.test(name) && !name.includes('escaped')),
    String(added),
  );
  assert.deepEqual(
    (await readdir(join(folder, '..'))).filter((name) => name.includes('escaped')),
    [],
  );
});

test('what looks like the boundary in a file is a part of the file', async () => {
  const tricky = Buffer.concat([
    bytes,
    Buffer.from(`--${BOUNDARY}--\r\n\r--${BOUNDARY}\n--${BOUNDARY}`),
  ]);
  const padded = Buffer.concat([
    Buffer.alloc(300 * KB, 'preamble'),
    Buffer.from('\r\n'),
    bodyOf([metadata(), image('tricky.png', tricky)]),
    Buffer.alloc(300 * KB, 'epilogue'),
  ]);
  const { status, text } = await send(padded);
  assert.equal(status, 200, text);
});

test('no bytes make the server fail or leave a file', async () => {
  const base = bodyOf([metadata(), image('a.png'), part('metadata', '{}'), image('b.png', 'x')]);
  const bodies = fc.array(
    fc.record({ at: fc.nat(base.length - 1), bytes: fc.uint8Array({ maxLength: 12 }) }),
    { minLength: 1, maxLength: 4 },
  );
  await fc.assert(
    fc.asyncProperty(bodies, fc.nat(base.length), async (changes, length) => {
      const body = Buffer.from(base);
      for (const change of changes)
        body.set(change.bytes.subarray(0, base.length - change.at), change.at);
      const { status, text } = await send(body.subarray(0, Math.max(1, length)));
      assert.ok([200, 400, 413, 422].includes(status), text);
      await noFiles();
    }),
    { numRuns: 150 },
  );
});

test('an announced size past the bound is refused before anything is sent', async () => {
  const socket = await openSocket(collector.url);
  const answered = new Promise<string>((resolve) => {
    socket.once('data', (chunk) => resolve(chunk.toString()));
  });
  socket.write(requestHead(PATH, { 'content-type': TYPE, 'content-length': 513 * KB * KB }));
  const answer = await answered;
  assert.match(answer, /^HTTP\/1\.1 413/);
  assert.match(answer, /larger than 512 MB/);
  socket.destroy();
});

test('who sends everything before reading gets the refusal, and the connection goes on', async () => {
  const body = bodyOf([part('unknown', 'x'), image('big.png', Buffer.alloc(20 * KB * KB))]);
  const socket = await openSocket(collector.url);
  let answers = '';
  socket.on('data', (chunk) => (answers += chunk.toString()));
  socket.write(requestHead(PATH, { 'content-type': TYPE, 'content-length': body.length }));
  await new Promise((resolve) => {
    socket.write(body, resolve);
  });
  await until('the refusal', () => answers.includes('"unknown","message":"is unknown'));
  socket.write('GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n');
  await until('the next answer', () => answers.includes('{"status":"ok"}'));
  socket.destroy();
});

test('a client that goes away leaves no file, no record and no descriptor', async () => {
  await sendForm(collector.url, formOf(payloadOf(), []));
  const [records, descriptors] = [await count(), await openDescriptors()];
  const start = bodyOf([metadata(), image('big.png', Buffer.alloc(200 * KB))], { end: '' });
  const lengths: Record<string, string | number>[] = [
    { 'content-length': 10_000 * KB },
    { 'transfer-encoding': 'chunked' },
  ];
  for (const headers of lengths) {
    const socket = await openSocket(collector.url);
    socket.on('error', () => undefined);
    socket.write(requestHead(PATH, { 'content-type': TYPE, ...headers }));
    if ('transfer-encoding' in headers) socket.write(`${start.length.toString(16)}\r\n`);
    // Not to its last bytes, so that the file is still open.
    socket.write(start.subarray(0, start.length - 2));
    await until('a temporary file', async () => (await temporaryFiles(folder)).length === 1);
    socket.destroy();
    await noFiles();
  }
  assert.equal(await count(), records);
  await until('closed descriptors', async () => (await openDescriptors()) <= descriptors);
});

test('past so many at once a request is 503, until one has ended', async () => {
  await using busy = await startCollector(database, { ...settings, COLLECTOR_UPLOADS: '1' });
  const socket = await openSocket(busy.url);
  const start = bodyOf([metadata(), image('slow.png', bytes)], { end: '' });
  socket.write(requestHead(PATH, { 'content-type': TYPE, 'content-length': start.length + 100 }));
  socket.write(start);
  await until('a temporary file', async () => (await temporaryFiles(folder)).length === 1);
  const refused = await sendForm(busy.url, formOf(payloadOf(), []));
  assert.deepEqual([refused.status, refused.body.code], [503, 'uploads_busy']);
  assert.ok(refused.headers.get('retry-after'));
  const { text } = await busy.get('/metrics');
  assert.match(text, /collector_ingest_requests_total\{source="unknown",outcome="failed"\} 1\n/);
  socket.destroy();
  await until('its turn', async () => {
    return (await sendForm(busy.url, formOf(payloadOf(), []))).status === 200;
  });
});

test('past the rate of its source a form is refused at its metadata, its files not yet sent', async () => {
  const limits = { COLLECTOR_INGEST_PER_MINUTE: '1', COLLECTOR_UPLOADS: '1' };
  await using limited = await startCollector(database, { ...settings, ...limits });
  const sendFor = (source_slug: string) => {
    const file = { name: 'a.png', bytes: Uint8Array.from(bytes) };
    return sendForm(limited.url, formOf(payloadOf({ source_slug }), [file]));
  };
  assert.equal((await sendFor('eager')).status, 200);
  const records = await count();

  await using socket = await openSocket(limited.url);
  let answers = '';
  socket.on('data', (chunk) => (answers += chunk.toString()));
  const again = part('metadata', JSON.stringify(payloadOf({ source_slug: 'eager' })));
  const start = bodyOf([again, image('big.png', Buffer.alloc(200 * KB))], { end: '' });
  socket.write(requestHead(PATH, { 'content-type': TYPE, 'content-length': 10_000 * KB }));
  socket.write(start);
  await until('a refusal', () => answers.includes('"rate_limited"'), 5000);
  assert.match(answers, /^HTTP\/1\.1 429 /);
  assert.match(answers, /^retry-after: \d+\r$/m);
  assert.match(answers, /^ratelimit-remaining: 0\r$/m);
  await noFiles();
  assert.equal(await count(), records);
  // The only turn is free again although the sender has not ended, and another source has it.
  const other = await sendFor('patient');
  assert.deepEqual([other.status, other.headers.get('ratelimit-remaining')], [200, '0']);
  const { text } = await limited.get('/metrics');
  assert.match(
    text,
    /collector_ingest_requests_total\{source="eager",outcome="rate_limited"\} 1\n/,
  );
});

test('a shutdown in the midst of an upload or of the pipeline leaves nothing undecided', async () => {
  const server = await startModelServer();
  await using stopping = await startCollector(database, {
    ...settings,
    MODEL_MODE: 'openai',
    MODEL_BASE_URL: server.url,
    MODEL_CHAT: 'm',
    MODEL_EMBEDDING: 'e',
  });
  const uploading = await openSocket(stopping.url);
  uploading.on('error', () => undefined);
  const start = bodyOf([metadata(), image('slow.png', bytes)], { end: '' });
  const headers = { 'content-type': TYPE, 'content-length': start.length + 100 };
  uploading.write(requestHead(PATH, headers));
  uploading.write(start);
  await until('a temporary file', async () => (await temporaryFiles(folder)).length === 1);
  const processing = sendForm(stopping.url, formOf(payloadOf(), []));
  await until('the model to be asked', () => server.state.requests > 0);
  const closing = stopping.close();
  assert.equal((await processing).status, 200);
  uploading.destroy();
  await closing;
  const unfinished = await db
    .selectFrom('raw_data')
    .select('id')
    .where('status', 'in', ['pending', 'processing'])
    .execute();
  assert.deepEqual(unfinished, []);
  await server.close();
});
