import assert from 'node:assert/strict';
import { createReadStream } from 'node:fs';
import { test } from 'node:test';
import { openRows } from '../../src/ingest/open-rows.ts';
import { decodeText } from '../../src/ingest/text.ts';
import { pieces } from './rows.ts';

// "Київ, 3 к.\nЛьвів" in Windows-1251.
const WINDOWS_1251 = Buffer.from('cae8bfe22c203320ea2e0acbfce2b3e2', 'hex');

async function decode(content: string | Uint8Array, encoding = 'utf-8', size?: number) {
  const read = { bytes: 0, utf8Bytes: 0 };
  let text = '';
  const chunks = decodeText(pieces(content, size), { name: 'a.csv', encoding }, read);
  for await (const chunk of chunks) text += chunk;
  return { text, read };
}

test('characters that are cut in the middle are whole, and a byte order mark is left out', async () => {
  for (const size of [1, 2, 3, 100]) {
    const { text, read } = await decode('\uFEFFЇжак 😀', 'utf-8', size);
    assert.equal(text, 'Їжак 😀');
    assert.deepEqual(read, { bytes: 16, utf8Bytes: 13 });
  }
});

test('another encoding is read when it is named', async () => {
  const { text, read } = await decode(WINDOWS_1251, 'windows-1251');
  assert.equal(text, 'Київ, 3 к.\nЛьвів');
  assert.equal(read.bytes, 16);
  assert.equal(read.utf8Bytes, 26);
  assert.equal((await decode(Buffer.from('\uFEFFЛьвів', 'utf16le'), 'utf-16le')).text, 'Львів');
});

test('what is not of the encoding is told with its line and what to do', async () => {
  for (const size of [1, 4, 100]) {
    await assert.rejects(
      decode(Buffer.concat([Buffer.from('a,b\n1,2\n'), WINDOWS_1251]), 'utf-8', size),
      /^CommandError: a\.csv is not UTF-8 text \(line 3\): save it as UTF-8, or name its encoding, such as --encoding windows-1251$/,
    );
  }
  await assert.rejects(decode(Buffer.from('ok\nЇ').subarray(0, 4)), /not UTF-8 text \(line 2\)/);
  await assert.rejects(
    decode('\u0000', 'utf-16le'),
    /is not utf-16le text .*another with --encoding/,
  );
});

const RECORDS = '{"external_id":"1","description":"Продам гараж у Луцьку"}\n';
/** Latin letters alone, as some exports have them. */
const LATIN = '{"external_id":"1","description":"Garage in Lutsk, 18 sq.m, 9500 USD"}\n';
const utf16 = (text: string) => Buffer.from(text, 'utf16le');

test('a text of another encoding than it is read by is named before anything of it is', async () => {
  const swapped = utf16(`\uFEFF${RECORDS}`).swap16();
  const all: [content: string | Uint8Array, encoding: string, said: RegExp][] = [
    [utf16(`\uFEFF${RECORDS}`), 'utf-8', /a\.csv is UTF-16 text: add --encoding utf-16le$/],
    [swapped, 'utf-8', /is UTF-16 text: add --encoding utf-16be$/],
    [utf16(RECORDS), 'utf-8', /is UTF-16 text: add --encoding utf-16le$/],
    [utf16(LATIN), 'windows-1251', /is UTF-16 text: add --encoding utf-16le$/],
    [utf16(`\uFEFF${RECORDS}`), 'utf-16be', /is UTF-16 text: add --encoding utf-16le$/],
    [RECORDS, 'windows-1251', /is UTF-8 text: leave --encoding out$/],
    [`\uFEFF${RECORDS}`, 'koi8-u', /is UTF-8 text: leave --encoding out$/],
    [LATIN, 'utf-16le', /is not utf-16le text: leave --encoding out for UTF-8, or name another$/],
  ];
  for (const [content, encoding, said] of all) {
    for (const size of [7, 1000]) await assert.rejects(decode(content, encoding, size), said);
  }
  for (const [content, encoding] of [
    [utf16(RECORDS), 'utf-16le'],
    [utf16(`\uFEFF${RECORDS}`).swap16(), 'utf-16be'],
    [LATIN, 'windows-1251'],
    ['a\u0000b', 'utf-8'],
  ] as const) {
    assert.match((await decode(content, encoding)).text, /^(\{.*\}\n|a\0b)$/);
  }
});

test('what fails while it is read is told with its name', async () => {
  for (const format of ['csv', 'jsonl'] as const) {
    const { rows } = await openRows({
      path: '-',
      format,
      encoding: 'utf-8',
      delimiter: undefined,
      onColumns: () => undefined,
      // As the shell hands a folder over: `oselya ingest - < folder`.
      stdin: createReadStream(import.meta.dirname),
      signal: new AbortController().signal,
    });
    await assert.rejects(
      Array.fromAsync(rows),
      /^CommandError: standard input cannot be read: it is a folder$/,
    );
  }
});
