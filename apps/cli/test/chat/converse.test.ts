import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import type { Arrived, ChatClient, TurnEvent } from '@oselya/chat-client';
import { converse } from '../../src/chat/converse.ts';

const digest = (content: string) => ({ id: 'd', role: 'assistant', content, unasked: true });

test('what comes by itself is shown after the answer that is being written, and the session stays open', async () => {
  const [stdin, stdout] = [new PassThrough(), new PassThrough()];
  const end = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  let hear: ((arrived: Arrived) => void) | undefined;
  async function* answer(): AsyncGenerator<TurnEvent> {
    const place = { session_id: 's', turn_id: 't' };
    asked.resolve();
    yield { type: 'message.delta', ...place, seq: 2, text: 'Є дві.' };
    await end.promise;
    const message = { id: 'a', role: 'assistant', content: 'Є дві.' };
    yield { type: 'message.completed', ...place, seq: 3, message };
  }
  const client = {
    hearArrivals: (hearer: (arrived: Arrived) => void) => {
      hear = hearer;
    },
    openSession: () =>
      Promise.resolve({ session: { session_id: 's', name: 'Пошук' }, messages: [], answer: null }),
    send: () => answer(),
  } as unknown as ChatClient;
  const shown = text(stdout);
  const status = converse(
    { client, sessions: () => Promise.resolve([]), sessionId: 's', profileId: undefined },
    { stdin, stdout, env: { NO_COLOR: '1' } } as never,
  );
  stdin.write('Що є?\n');
  await asked.promise;
  hear?.({ sessionId: 's', message: digest('Нових: 1\u001B[2J') });
  hear?.({ sessionId: 's2', message: digest('Не тут') });
  end.resolve();
  stdin.write('/help\n');
  stdin.end();
  assert.equal(await status, 0);
  stdout.end();
  const screen = await shown;
  assert.match(screen, /Є дві\.[^]*Нових: 1[^]*news in another session: \/open s2/);
  assert.doesNotMatch(screen, /Не тут/);
  assert.ok(!screen.includes('\u001B[2J'));
});
