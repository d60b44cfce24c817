import assert from 'node:assert/strict';
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { type Arrived, type ChatClient, ChatError, type TurnEvent } from '@oselya/chat-client';
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

test('what is remembered is shown, and taken back step by step, the latest first', async () => {
  const [stdin, stdout] = [new PassThrough(), new PassThrough()];
  const named = { category: 'wishes', key: 'city\u001B[2J' };
  const steps = [
    { step_id: 'one', changes: [{ ...named, value: 'Київ', previous: 'Львів' }] },
    { step_id: 'none', changes: [] },
    { step_id: 'two', changes: [{ ...named, value: null, previous: 'Київ' }] },
  ];
  async function* answer(): AsyncGenerator<TurnEvent> {
    const place = { session_id: 's', turn_id: 't' };
    for (const [index, step] of steps.entries()) {
      const tool = { ...step, name: 'x', title: 'Крок', status: 'done' as const, summary: 'так' };
      yield { type: 'tool.finished', ...place, seq: index + 2, tool };
    }
    const message = { id: 'a', role: 'assistant', content: 'Добре.' };
    yield { type: 'message.completed', ...place, seq: 9, message };
  }
  const taken: string[][] = [];
  const client = {
    hearArrivals: () => undefined,
    createSession: () => Promise.resolve({ session_id: 's' }),
    send: () => answer(),
    undo: (...step: string[]) => {
      taken.push(step);
      const refused = new ChatError('refused', 'There is nothing to undo');
      return step[1] === 'one' ? Promise.reject(refused) : Promise.resolve();
    },
  } as unknown as ChatClient;
  let screen = '';
  stdout.on('data', (part) => {
    screen += String(part);
  });
  const status = converse(
    { client, sessions: () => Promise.resolve([]), sessionId: undefined, profileId: undefined },
    { stdin, stdout, env: { NO_COLOR: '1' } } as never,
  );
  stdin.write('Що є?\n');
  while (!/Добре\.[^]*> /.test(screen)) await once(stdout, 'data');
  stdin.write('/undo\n/undo\n/undo\n/quit\n');
  assert.equal(await status, 0);
  assert.deepEqual(taken, [
    ['s', 'two'],
    ['s', 'one'],
  ]);
  const lines = stripVTControlCharacters(screen).split(/\r?\n/u);
  assert.deepEqual(
    lines
      .filter((line) => /remembered|forgotten|nothing/i.test(line))
      .map((line) => line.replace(/^> /u, '')),
    [
      'Remembered: wishes/city[2J: Київ (before: Львів). /undo takes it back.',
      'Forgotten: wishes/city[2J: Київ. /undo takes it back.',
      'Taken back: Forgotten: wishes/city[2J: Київ',
      'There is nothing to undo',
      'Nothing was remembered here that can be taken back.',
    ],
  );
});
