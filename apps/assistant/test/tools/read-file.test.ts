import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { User } from '../../src/access/user.ts';
import { TEXT_TYPE } from '../../src/files/index.ts';
import { readFile } from '../../src/tools/read-file.ts';

const user: User = {
  id: 'u-olena',
  email: 'olena@example.test',
  display_name: null,
  role: 'user',
  permissions: [],
};

test('a file is found in whatever normal form the model writes its name', async () => {
  const asked: string[] = [];
  const tool = readFile({
    readFile: (_user, { name }) => {
      asked.push(name);
      return Promise.resolve({ content: Buffer.from('тут'), mediaType: TEXT_TYPE });
    },
  });
  const stored = 'мій їжак.txt'.normalize('NFC');
  const context = {
    user,
    sessionId: 's',
    signal: new AbortController().signal,
    noteChange: () => Promise.resolve(),
  };
  for (const form of ['NFC', 'NFD'] as const) {
    const { data } = await tool.run({ name: stored.normalize(form) }, context);
    assert.deepEqual(data, { name: stored, text: 'тут' });
  }
  assert.deepEqual(asked, [stored, stored]);
});

test('a long file is read from where the part before ended, and no character is parted', async () => {
  // A code unit before the pairs: any even length would cut one.
  const text = `a${'🏠'.repeat(7000)}`;
  const tool = readFile({
    readFile: () => Promise.resolve({ content: Buffer.from(text), mediaType: TEXT_TYPE }),
  });
  const context = {
    user,
    sessionId: 's',
    signal: new AbortController().signal,
    noteChange: () => Promise.resolve(),
  };
  const parts: string[] = [];
  for (let from: number | undefined = 0; from !== undefined;) {
    const { data } = await tool.run({ name: 'a.txt', from }, context);
    const part = data as { text: string; next?: number };
    assert.ok(part.text.isWellFormed());
    parts.push(part.text);
    from = part.next;
  }
  assert.equal(parts.join(''), text);
  assert.equal(parts.length, 3);
  const within = await tool.run({ name: 'a.txt', from: 2 }, context);
  assert.partialDeepStrictEqual(within.data, { text: '🏠'.repeat(3000), next: 6001 });
});
