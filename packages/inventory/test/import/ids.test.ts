import assert from 'node:assert/strict';
import { test } from 'node:test';
import { importing } from '../support/importing.ts';

const TITLES = [
  ['Київ API', 'київ-api'],
  ['Київ API'.normalize('NFD'), 'київ-api'],
  ['Мій Zürich', 'мій-zürich'],
  ['हिन्दी', 'हिन्दी'],
  ['ﬁle ①', 'file-1'],
] as const;

test('ids have the letters of a title, however it is encoded', async () => {
  for (const [title, id] of TITLES) {
    const document = { info: { title }, servers: [{ url: 'https://a.example/' }] };
    const { stdout } = await importing('openapi', JSON.stringify(document));
    assert.equal(JSON.parse(stdout)[0].id, `${id}-a-example`);
  }
});
