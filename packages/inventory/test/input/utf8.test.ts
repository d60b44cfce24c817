import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { readUtf8 } from '../../src/input/utf8.ts';
import type { EncodingNotice } from '../../src/input/utf8.ts';

async function read(bytes: Buffer, size: number) {
  async function* chunks() {
    for (let from = 0; from < bytes.length; from += size) yield bytes.subarray(from, from + size);
  }
  const parts: Buffer[] = [];
  const notices: EncodingNotice[] = [];
  for await (const piece of readUtf8(chunks())) {
    if (Buffer.isBuffer(piece)) parts.push(Buffer.from(piece));
    else notices.push(piece);
  }
  return { parts, text: Buffer.concat(parts), notices };
}

test('bytes are passed on up to the first that the decoder of the platform refuses', async () => {
  const bytes = fc.oneof(
    fc.string({ unit: 'binary' }).map((text) => Buffer.from(text)),
    fc.uint8Array().map((array) => Buffer.from(array)),
    fc
      .tuple(fc.string({ unit: 'grapheme' }), fc.nat(), fc.nat({ max: 255 }))
      .map(([text, at, byte]) => {
        const valid = Buffer.from(text);
        if (valid.length > 0) valid[at % valid.length] = byte;
        return valid;
      }),
  );
  await fc.assert(
    // The letters in front keep the bytes from being taken for another encoding.
    fc.asyncProperty(bytes, fc.integer({ min: 1, max: 9 }), async (random, size) => {
      const all = Buffer.concat([Buffer.from('[""'), random]);
      const { text, parts, notices } = await read(all, size);
      assert.equal(notices.length === 0, isValid(all));
      assert.deepEqual(text, all.subarray(0, text.length));
      for (const part of parts) assert.ok(isValid(part));
      const [notice] = notices;
      if (notice === undefined) return;
      assert.equal(notice.code, 'encoding/utf-8');
      assert.match(notice.message, new RegExp(`byte ${text.length}\\b`));
      // One character more is not valid any more.
      for (let more = 1; more <= 4; more += 1) {
        assert.ok(!isValid(all.subarray(text.length, text.length + more)));
      }
    }),
    { numRuns: 2_000 },
  );
});

test('each encoding is told apart, with and without a mark, in chunks of any size', async () => {
  const cases: [string, number[]][] = [
    ['UTF-16 (little-endian)', [0xff, 0xfe, 0x5b, 0, 0x5d, 0]],
    ['UTF-16 (big-endian)', [0xfe, 0xff, 0, 0x5b, 0, 0x5d]],
    ['UTF-16 (little-endian)', [0x5b, 0, 0x5d, 0]],
    ['UTF-16 (big-endian)', [0, 0x5b, 0, 0x5d]],
    ['UTF-16 (little-endian)', [0xff, 0xfe]],
    ['UTF-32 (little-endian)', [0xff, 0xfe, 0, 0, 0x5b, 0, 0, 0]],
    ['UTF-32 (big-endian)', [0, 0, 0xfe, 0xff, 0, 0, 0, 0x5b]],
    ['UTF-32 (little-endian)', [0x5b, 0, 0, 0, 0x5d, 0, 0, 0]],
    ['UTF-32 (big-endian)', [0, 0, 0, 0x5b, 0, 0, 0, 0x5d]],
  ];
  for (const [name, bytes] of cases) {
    for (const size of [1, 2, 3, 5, 100]) {
      const { text, notices } = await read(Buffer.from(bytes), size);
      assert.equal(text.length, 0);
      assert.deepEqual(notices, [
        { code: 'encoding/utf-16', message: `the file is ${name}; save it as UTF-8` },
      ]);
    }
  }
});

test('a zero byte alone makes no other encoding', async () => {
  for (const bytes of [
    [0, 0x5b, 0x5d],
    [0, 0x5b, 0x5d, 0x20],
    [0x5b, 0, 0x5d, 0x20],
    [0x5b, 0],
  ]) {
    const { text, notices } = await read(Buffer.from(bytes), 100);
    assert.deepEqual([...text], bytes);
    assert.deepEqual(notices, []);
  }
});

test('a mark is taken away, and byte offsets count it', async () => {
  for (const size of [1, 2, 3, 4, 100]) {
    const marked = await read(Buffer.from('\uFEFF[]'), size);
    assert.equal(marked.text.toString(), '[]');
    assert.deepEqual(
      marked.notices.map(({ code }) => code),
      ['encoding/bom'],
    );
    const alone = await read(Buffer.from('\uFEFF'), size);
    assert.equal(alone.text.length, 0);
    assert.equal(alone.notices.length, 1);
    const broken = await read(Buffer.from([0xef, 0xbb, 0xbf, 0x5b, 0xff]), size);
    assert.match(broken.notices[1]?.message ?? '', /^byte 4 \(0xFF\)/);
  }
});

test('a file that ends inside of a character says so', async () => {
  const { notices } = await read(Buffer.from('["🏠').subarray(0, 5), 2);
  assert.match(notices[0]?.message ?? '', /ends inside a UTF-8 character that begins at byte 2/);
});

function isValid(bytes: Uint8Array): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return true;
  } catch {
    return false;
  }
}
