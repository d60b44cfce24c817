import assert from 'node:assert/strict';
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import {
  type ReceivedMessage,
  type ChatClient,
  ChatError,
  type AnswerEvent,
} from '@oselya/chat-client';
import { converse } from '../src/chat/converse.ts';

/** Starts a conversation with a fake client and a terminal. */
function startConversation(
  client: Partial<ChatClient>,
  options: { sessionId?: string; connectionEnd?: Promise<never> } = {},
) {
  const [stdin, stdout] = [new PassThrough(), new PassThrough()];
  const statusPromise = converse(
    {
      client: client as ChatClient,
      connectionEnd: new Promise(() => undefined),
      listSessions: () => Promise.resolve([]),
      sessionId: undefined,
      profileId: undefined,
      notices: { onMessage: () => undefined },
      ...options,
    },
    { stdin, stdout, env: { NO_COLOR: '1' } } as never,
  );
  return { stdin, stdout, status: statusPromise };
}

/** IDs in each event of an answer. */
const TURN = { session_id: 's', turn_id: 't' };

const createMessage = (content: string) => ({
  id: 'm',
  role: 'assistant',
  content,
  created_at: null,
});
const createDigest = (content: string) => ({ ...createMessage(content), unasked: true });
const openSession = (answer: AsyncIterable<AnswerEvent> | null) => () =>
  Promise.resolve({ session: { session_id: 's', name: 'Пошук' }, messages: [], answer });

test('a digest is shown after the answer in progress', async () => {
  const end = Promise.withResolvers<void>();
  const requestStarted = Promise.withResolvers<void>();
  let onArrived: ((arrived: ReceivedMessage) => void) | undefined;
  async function* answer(): AsyncGenerator<AnswerEvent> {
    requestStarted.resolve();
    yield { type: 'message.delta', ...TURN, seq: 2, text: 'Є дві.' };
    await end.promise;
    yield { type: 'message.completed', ...TURN, seq: 3, message: createMessage('Є дві.') };
  }
  const client = {
    onArrived: (listener: (arrived: ReceivedMessage) => void) => {
      onArrived = listener;
    },
    openSession: openSession(null),
    send: () => answer(),
  } as unknown as ChatClient;
  const { stdin, stdout, status } = startConversation(client, { sessionId: 's' });
  const outputPromise = text(stdout);
  stdin.write('Що є?\n');
  await requestStarted.promise;
  onArrived?.({ sessionId: 's', message: createDigest('Нових: 1\u001B[2J') });
  onArrived?.({ sessionId: 's2', message: createDigest('Не тут') });
  end.resolve();
  stdin.write('/help\n');
  stdin.end();
  assert.equal(await status, 0);
  stdout.end();
  const screen = await outputPromise;
  assert.match(screen, /Є дві\.[^]*Нових: 1[^]*Another session has a new message: \/open s2/);
  assert.doesNotMatch(screen, /Не тут/);
  assert.ok(!screen.includes('\u001B[2J'));
});

test('a conversation whose session cannot be opened ends', async () => {
  const error = new ChatError('unreachable', 'ECONNREFUSED');
  const connectionEnd = Promise.reject(error);
  const client = { onArrived: () => undefined, openSession: () => connectionEnd };
  await assert.rejects(startConversation(client, { sessionId: 's', connectionEnd }).status, error);
});

/** Waits until the screen shows matching text. Returns a function that reads the screen. */
async function waitForText(stdout: PassThrough, pattern: RegExp): Promise<() => string> {
  let screen = '';
  stdout.on('data', (part) => {
    screen += String(part);
  });
  while (!pattern.test(screen)) await once(stdout, 'data');
  return () => screen;
}

/** Creates a client whose session has an answer in progress. */
const createClient = (answer: AsyncIterable<AnswerEvent>) =>
  ({
    onArrived: () => undefined,
    openSession: openSession(answer),
    cancel: () => new Promise(() => undefined),
  }) as unknown as ChatClient;

const part: AnswerEvent = { type: 'message.delta', ...TURN, seq: 2, text: 'Є дві' };

async function* answerEndlessly(): AsyncGenerator<AnswerEvent> {
  yield part;
  await new Promise(() => undefined);
}

async function* loseAnswer(): AsyncGenerator<AnswerEvent> {
  yield await Promise.resolve(part);
  throw new ChatError('answer_lost', 'the answer was lost: retry it');
}

test('a user may leave while a session or answer is awaited', async () => {
  const client = {
    onArrived: () => undefined,
    openSession: () => new Promise<never>(() => undefined),
  };
  const opening = startConversation(client, { sessionId: 's' });
  await once(opening.stdout, 'data');
  opening.stdin.write('\u0003');
  assert.equal(await opening.status, 130);

  for (const [keys, expectedStatus] of [
    ['/quit\n', 0],
    ['\u0004', 0],
    ['\u0003\u0003', 130],
  ] as const) {
    const { stdin, stdout, status } = startConversation(createClient(answerEndlessly()), {
      sessionId: 's',
    });
    await waitForText(stdout, /Є дві/);
    stdin.write(keys);
    assert.equal(await status, expectedStatus);
  }
});

test('a lost answer keeps the conversation, a rejected session ends it', async () => {
  const { stdin, stdout, status } = startConversation(createClient(loseAnswer()), {
    sessionId: 's',
  });
  await waitForText(stdout, /the answer was lost: retry it[^]*> /);
  stdin.write('/quit\n');
  assert.equal(await status, 0);

  const error = createRejection(404, 'session_not_found');
  const client = { onArrived: () => undefined, openSession: () => Promise.reject(error) };
  await assert.rejects(startConversation(client, { sessionId: 's' }).status, error);
});

/** Undoes changes of two steps, and returns the requests and the printed lines. */
async function undoChanges(times: number, undo: (stepId: string) => ChatError | undefined) {
  const namedFact = { category: 'wishes', key: 'city\u001B[2J' };
  const steps = [
    { step_id: 'one', changes: [{ ...namedFact, value: 'Київ', previous: 'Львів' }] },
    { step_id: 'none', changes: [] },
    { step_id: 'two', changes: [{ ...namedFact, value: null, previous: 'Київ' }] },
  ];
  async function* answer(): AsyncGenerator<AnswerEvent> {
    for (const [index, step] of steps.entries()) {
      const tool = { ...step, name: 'x', title: 'Крок', status: 'done' as const, summary: 'так' };
      yield { type: 'tool.finished', ...TURN, seq: index + 2, tool };
    }
    yield { type: 'message.completed', ...TURN, seq: 9, message: createMessage('Добре.') };
  }
  const undoneSteps: string[][] = [];
  const client = {
    onArrived: () => undefined,
    createSession: () => Promise.resolve({ session_id: 's' }),
    send: () => answer(),
    undo: (...step: string[]) => {
      undoneSteps.push(step);
      const error = undo(step[1] ?? '');
      return error === undefined ? Promise.resolve() : Promise.reject(error);
    },
  } as unknown as ChatClient;
  const { stdin, stdout, status } = startConversation(client);
  stdin.write('Що є?\n');
  const screen = await waitForText(stdout, /Добре\.[^]*> /);
  stdin.write(`${'/undo\n'.repeat(times)}/quit\n`);
  assert.equal(await status, 0);
  const lines = stripVTControlCharacters(screen())
    .split(/\r?\n/u)
    .filter((line) => /remembered|forgotten|nothing|no change/i.test(line))
    .map((line) => line.replace(/^> /u, ''));
  return { undoneSteps, lines };
}

/** Creates the error for a rejected request. */
const createRejection = (status: number, code: string) =>
  new ChatError('rejected', `Nothing: ${code}`, { status, code, title: code });

test('/undo reverts changes of the memory, the latest first', async () => {
  const { undoneSteps, lines } = await undoChanges(3, (step) =>
    step === 'one' ? createRejection(409, 'nothing_to_undo') : undefined,
  );
  assert.deepEqual(undoneSteps, [
    ['s', 'two'],
    ['s', 'one'],
  ]);
  assert.deepEqual(lines, [
    'Remembered: wishes/city[2J: Київ (before: Львів). /undo reverts it.',
    'Forgotten: wishes/city[2J: Київ. /undo reverts it.',
    'Undone: Forgotten: wishes/city[2J: Київ',
    'Nothing: nothing_to_undo',
    'There is no change to undo.',
  ]);
});

test('a temporary failure of /undo keeps the change', async () => {
  const rejections = [createRejection(503, 'unavailable'), createRejection(500, 'internal_error')];
  const { undoneSteps, lines } = await undoChanges(4, () => rejections.shift());
  assert.deepEqual(
    undoneSteps.map(([, step]) => step),
    ['two', 'two', 'two', 'one'],
  );
  assert.deepEqual(lines.slice(2), [
    'Nothing: unavailable',
    'Nothing: internal_error',
    'Undone: Forgotten: wishes/city[2J: Київ',
    'Undone: Remembered: wishes/city[2J: Київ (before: Львів)',
  ]);
});
