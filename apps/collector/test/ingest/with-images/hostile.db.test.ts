import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, test } from 'node:test';
import fc from 'fast-check';
import { picture } from '../../images/pictures.ts';
import { temporaryFiles } from '../../support/form.ts';
import {
  BOUNDARY,
  FORM_TYPE,
  formBytes,
  image as imagePart,
  metadata,
  type Part,
  part,
} from '../../support/form-bytes.ts';
import { exchange } from '../../support/raw-http.ts';
import { until } from '../../support/until.ts';
import { openUploads } from './harness.ts';

const PATH = '/api/v1/ingest/with-images';
const KB = 1024;
const { folder, collector, count, untilNothingIsLeft } = await openUploads();
const bytes = await picture('png', { colour: 'orchid' });
const image = (name: string, content: Buffer | string = bytes) => imagePart(name, content);

const send = (body: Buffer, type = FORM_TYPE) => exchange(collector.url, PATH, { type, body });
const many = (one: Part) => Array<Part>(10_000).fill(one);

const noFiles = () =>
  until('no temporary file', async () => (await temporaryFiles(folder)).length === 0);

afterEach(async () => {
  await untilNothingIsLeft();
  assert.equal((await collector.get('/health/live')).status, 200);
});

test('what is no form, or not all of one, is refused with 400, 413, 415 or 422', async () => {
  const whole = formBytes([metadata(), image('a.png')]);
  const nameless = { headers: 'X-Nothing: here', content: 'hidden' };
  const cases: [string, number, Buffer, string?][] = [
    ['no boundary', 400, whole, 'multipart/form-data'],
    ['an empty boundary', 400, whole, 'multipart/form-data; boundary='],
    ['another boundary', 400, whole, 'multipart/form-data; boundary=other'],
    ['another kind of multipart', 415, whole, `multipart/mixed; boundary=${BOUNDARY}`],
    ['nothing', 422, Buffer.alloc(0)],
    ['only the end', 422, Buffer.from(`--${BOUNDARY}--\r\n`)],
    ['no end', 400, formBytes([metadata(), image('a.png')], { end: '' })],
    ['the end in the midst of a file', 400, whole.subarray(0, whole.length - 60)],
    ['the end in the midst of the field', 400, whole.subarray(0, 150)],
    ['the end in the midst of a head', 400, Buffer.from(`--${BOUNDARY}\r\nContent-Dispo`)],
    ['line feeds alone', 400, Buffer.from(whole.toString('latin1').replaceAll('\r\n', '\n'))],
    ['10,000 pictures', 422, formBytes([metadata(), ...many(image('a', ''))])],
    ['10,000 other fields', 422, formBytes([metadata(), ...many(part('other', ''))])],
    ['10,000 fields', 422, formBytes([metadata(), ...many(part('metadata', '{}'))])],
    ['10,000 parts without a name', 413, formBytes([...many(nameless), metadata()])],
    ['a field of a prototype', 400, formBytes([metadata(), part('__proto__', 'x')])],
    [
      'a part without a name',
      422,
      formBytes([{ headers: 'Content-Disposition: form-data', content: '' }]),
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
    const { status, text } = await send(formBytes([metadata(), { headers, content: bytes }]));
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
  const { status, text } = await send(formBytes([metadata(), ...names.map((name) => image(name))]));
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
    formBytes([metadata(), image('tricky.png', tricky)]),
    Buffer.alloc(300 * KB, 'epilogue'),
  ]);
  const { status, text } = await send(padded);
  assert.equal(status, 200, text);
});

test('no bytes make the server fail or leave a file', async () => {
  const base = formBytes([metadata(), image('a.png'), part('metadata', '{}'), image('b.png', 'x')]);
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
