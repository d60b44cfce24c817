import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChatPart } from '@oselya/model';
import { makeTitle } from '../../src/agent/title.ts';

/** What becomes of a title that the model gives. */
function titled(text: string): Promise<string> {
  async function* streamChat(): AsyncGenerator<ChatPart, void, undefined> {
    yield await Promise.resolve({ type: 'text', text } as const);
  }
  const { signal } = new AbortController();
  return makeTitle({ streamChat }, { text: 'Шукаю дім', modelName: '', signal });
}

test('a title is one line without quotes, of at most 80 characters, none of which is parted', async () => {
  assert.equal(await titled('\n «Дім у Львові».\nОсь назва.'), 'Дім у Львові');
  assert.equal(await titled(`${'x'.repeat(79)}🏠`), 'x'.repeat(79));
  assert.equal(await titled(`${'x'.repeat(78)}🏠🏠`), `${'x'.repeat(78)}🏠`);
  assert.equal(await titled(' \n'), '');
});

test('a server that knows no end is not read to it', async () => {
  for (const endless of ['слово', ' ', '\t']) {
    let parts = 0;
    async function* streamChat(): AsyncGenerator<ChatPart, void, undefined> {
      for (; parts < 100_000; parts += 1)
        yield await Promise.resolve({ type: 'text', text: endless });
    }
    const { signal } = new AbortController();
    const title = await makeTitle({ streamChat }, { text: 'Дім', modelName: '', signal });
    assert.ok(parts < 300, `${parts} were read`);
    assert.ok(title.length <= 80);
  }
});
