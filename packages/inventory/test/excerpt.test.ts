import assert from 'node:assert/strict';
import { test } from 'node:test';
import { excerptAt, Surroundings } from '../src/excerpt.ts';
import { inChunks, validate } from './support/findings.ts';

const URL = `https://user:${'hunter2'.repeat(300)}@a.example/`;

test('an excerpt shows nothing of a password, wherever it begins or ends', () => {
  const text = `{"url": "${URL}", "port": 1}`;
  for (let offset = 0; offset < text.length; offset += 1) {
    const { text: shown } = excerptAt(text, offset);
    assert.doesNotMatch(shown, /hunt|unter|ter2/, `at ${offset}: ${shown}`);
  }
  const short = text.replace('hunter2'.repeat(299), '');
  assert.deepEqual(excerptAt(short, short.indexOf('"port"')), {
    text: '{"url": "https://***@a.example/", "port": 1}',
    column: 35,
  });
});

test('nor does one of a text that comes in pieces', () => {
  const bytes = Buffer.from(`[ ] "${URL}" x`);
  for (let end = 4; end < bytes.length; end += 7) {
    const surroundings = new Surroundings();
    surroundings.pass(bytes.subarray(0, end));
    const { text: shown } = surroundings.at(bytes.subarray(end), 1);
    assert.doesNotMatch(shown, /hunt|unter|ter2/, `at ${end}: ${shown}`);
  }
});

test('no finding shows a password of the file', async () => {
  for (const text of [
    `[{"url":"https://u:hunter2@a","exposure":"https://u:hunter2@a","port":"https://u:hunter2@a/?token=hunter2"}]`,
    String.raw`[{"url":"https:\/\/u:hunter2@a","port":"x"}]`,
    `[{"url":"https://u:hunter2@a\n"}]`,
    `[] https://u:hunter2@a`,
    `["https://u:hunter2@a"`,
    `[{"https://u:hunter2@a":1,"https://u:hunter2@a":2}]`,
    `"https://u:hunter2@a"`,
  ]) {
    const { findings } = await validate(inChunks(Buffer.from(text), [text.indexOf('ter2')]));
    assert.ok(findings.length > 0);
    for (const { message, excerpt, related } of findings) {
      assert.doesNotMatch(JSON.stringify([message, excerpt, related]), /hunt|ter2/);
    }
  }
});
