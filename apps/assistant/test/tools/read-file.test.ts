import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TEXT_TYPE } from '../../src/files/files.ts';
import { readFile } from '../../src/tools/read-file.ts';
import { userOf } from '../helpers/people.ts';

const user = userOf('u-olena');

const context = {
  user,
  sessionId: 's',
  signal: new AbortController().signal,
  noteChange: () => Promise.resolve(),
  outputBytes: 16 * 1024,
};

/** The tool with one file; what it asks of it is in `asked`. */
function fileOf(text: string) {
  const asked: { name: string; bytes: number }[] = [];
  const content = Buffer.from(text);
  const tool = readFile({
    readPart: (_user, { name, from, bytes }) => {
      asked.push({ name, bytes });
      const part = content.subarray(from, from + bytes);
      return Promise.resolve({ part, size_bytes: content.length, media_type: TEXT_TYPE });
    },
  });
  return { asked, tool };
}

/** Reads a file to its end, from where each part before it ended. */
async function readAll(text: string, outputBytes: number): Promise<string[]> {
  const { tool } = fileOf(text);
  const parts: string[] = [];
  for (let from: number | undefined = 0; from !== undefined;) {
    const { data } = await tool.run({ name: 'a.txt', from }, { ...context, outputBytes });
    assert.ok(Buffer.byteLength(JSON.stringify(data)) <= outputBytes);
    const part = data as { text: string; next?: number };
    parts.push(part.text);
    from = part.next;
  }
  return parts;
}

test('a file is found in whatever normal form the model writes its name, and no more of it is asked for than is told', async () => {
  const { asked, tool } = fileOf('тут');
  const stored = 'мій їжак.txt'.normalize('NFC');
  for (const form of ['NFC', 'NFD'] as const) {
    const { data } = await tool.run({ name: stored.normalize(form) }, context);
    assert.deepEqual(data, { name: stored, text: 'тут' });
  }
  const part = { name: stored, bytes: 12_000 };
  assert.deepEqual(asked, [part, part]);
});

test('a long file is read from where the part before ended, and no character is parted', async () => {
  // A byte before the characters of two to four bytes: each part would cut one.
  for (const letter of ['ж', '語', '🏠']) {
    const text = `a${letter.repeat(14_000)}`;
    const parts = await readAll(text, 16 * 1024);
    assert.equal(parts.join(''), text);
    assert.equal(parts.length, Math.ceil(Buffer.byteLength(text) / 12_000), letter);
  }
});

test('where the model can be told less, the part is shorter, and nothing between two of them is missed', async () => {
  // In JSON a line break takes two bytes.
  for (const text of ['🏠\n'.repeat(900), 'ж'.repeat(3000), '\n'.repeat(20_000)]) {
    assert.equal((await readAll(text, 400)).join(''), text);
    assert.equal((await readAll(text, 16 * 1024)).join(''), text);
  }
});

test('a place within a character is read from the next one, and one behind the end is empty', async () => {
  const { tool } = fileOf(`a${'🏠'.repeat(4)}`);
  const within = await tool.run({ name: 'a.txt', from: 2 }, context);
  assert.deepEqual(within.data, { name: 'a.txt', text: '🏠'.repeat(3) });
  const behind = await tool.run({ name: 'a.txt', from: 900 }, context);
  assert.deepEqual(behind.data, { name: 'a.txt', text: '' });
});
