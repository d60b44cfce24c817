import assert from 'node:assert/strict';
import { test } from 'node:test';
import { listing } from '../helpers/scripted-collector.ts';
import { gate } from '../helpers/scripted-model.ts';
import { until } from '../helpers/until.ts';
import { openStage, type Talker, talk } from './stage.ts';

const stage = await openStage({ ANSWER_MAX_TOKENS: '5' });
const { collector, model, stored, url } = stage;
const sid = await stage.signIn('u-olena');

/** What came of a message whose answer failed: its problem, and that what was streamed is stored, once. */
async function failureOf(who: Talker, sessionId: string): Promise<string | undefined> {
  const { problem, message } = await who.waitFor('error');
  assert.partialDeepStrictEqual(message, {
    content: who.streamed,
    status: 'failed',
    problem: { code: problem?.code },
  });
  assert.deepEqual((await stored(sessionId)).slice(1), [['assistant', who.streamed, 'failed']]);
  assert.equal(who.of('message.completed').length, 0);
  return problem?.code;
}

const titlesAndStatuses = async (sessionId: string) =>
  (await stage.steps(sessionId)).map(({ title, status }) => [title, status]);

test('an answer that has as many tokens as it may ends with what was said, and says why', async (t) => {
  model.scripts.push({ words: ['Раз ', 'два ', 'три ', 'чотири ', 'пʼять ', 'шість ', 'сім.'] });
  const olena = await talk(t, { url, sid });
  const id = await olena.newSession();
  await olena.say(id, 'Рахуй');
  assert.equal(await failureOf(olena, id), 'answer_too_long');
  assert.equal(olena.streamed, 'Раз два три чотири пʼять ');

  model.scripts.push({ words: ['Раз', ', два.'] });
  await olena.client.ask({ type: 'message.retry', session_id: id });
  await olena.waitFor('message.completed');
  assert.deepEqual((await stored(id)).slice(1), [['assistant', 'Раз, два.', null]]);
});

test('an answer that the model server cut off at that length ends alike', async (t) => {
  model.scripts.push({ words: ['Раз ', 'два '], finishReason: 'length' });
  const olena = await talk(t, { url, sid });
  const id = await olena.newSession();
  await olena.say(id, 'Рахуй');
  assert.equal(await failureOf(olena, id), 'answer_too_long');
  assert.equal(olena.streamed, 'Раз два ');
  const asked = model.seen.at(-1) as { max_tokens?: number } | undefined;
  assert.equal(asked?.max_tokens, 5);
});

test('an answer that takes as long as it may ends, whether the model or a tool is waited for', async (t) => {
  const hurried = await stage.another({ ANSWER_MAX_SECONDS: '4' });
  const rest = gate();
  t.after(rest.open);
  const waiting = [
    { script: { words: ['Ще ', rest.opened, 'трохи'] }, said: 'Ще ', steps: [] },
    {
      script: { tools: [{ name: 'get_listing', arguments: { listing_id: 1 } }] },
      said: '',
      steps: [['Reading listing #1', 'failed']],
    },
  ];
  collector.failure = 'silent';
  t.after(() => {
    collector.failure = undefined;
  });
  const ends: (() => Promise<void>)[] = [];
  for (const { script, said, steps } of waiting) {
    model.scripts.push(script);
    const olena = await talk(t, { url: hurried, sid });
    const id = await olena.newSession();
    const asked = model.seen.length;
    await olena.say(id, 'Розкажи');
    await until(() => model.seen.length > asked);
    ends.push(async () => {
      assert.equal(await failureOf(olena, id), 'answer_too_slow');
      assert.deepEqual([olena.streamed, await titlesAndStatuses(id)], [said, steps]);
    });
  }
  for (const end of ends) await end();
});

test('in the least window that can be set people are answered with tools, and told of what is too long for it', async (t) => {
  // How long an answer may be follows the window then.
  const small = await stage.another({ MODEL_CONTEXT_TOKENS: '2048', ANSWER_MAX_TOKENS: '' });
  collector.listings = Array.from({ length: 5 }, (_, nth) => listing(nth + 1));
  const olena = await talk(t, { url: small, sid });
  const id = await olena.newSession();
  const asked = model.seen.length;
  model.scripts.push(
    { tools: [{ name: 'search_listings', arguments: { query: 'двокімнатна' } }] },
    { words: ['Є одна.'] },
  );
  await olena.say(id, 'Двокімнатна у Львові?');
  await olena.waitFor('message.completed');
  assert.equal(olena.streamed, 'Є одна.');
  const told = String(model.seen.at(-1)?.messages.at(-1)?.content);
  assert.match(told, /^\{"total":.*"listing_id":1,.*… \(cut off: \d+ bytes\)$/);

  await olena.say(id, 'слово '.repeat(500));
  assert.equal((await olena.waitFor('error')).problem?.code, 'message_too_long');
  await olena.say(id, 'Скільки коштує?');
  await olena.waitFor('message.completed', 2);
  // Instructions and tools alone are more than 1,500 tokens.
  for (const { max_tokens } of model.seen.slice(asked) as { max_tokens?: number }[]) {
    assert.ok(max_tokens !== undefined && max_tokens > 100 && max_tokens < 548, String(max_tokens));
  }
});
