import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ChatClient, ChatError, type Message, type Session } from '@oselya/chat-client';
import { until } from '@oselya/testing';
import fc from 'fast-check';
import { splitBlocks } from '../src/chat/blocks.ts';
import { Conversation } from '../src/chat/conversation.ts';
import { createDraftStore } from '../src/chat/drafts.ts';
import { type HtmlNode, linkTexts, sanitizeAddress } from '../src/chat/links.ts';
import {
  applyToolEvent,
  collectListingIds,
  createSearchAddress,
  readStoredSteps,
} from '../src/chat/steps.ts';

test('Blocks of a text are the text, and a fence or a list stays in one of them', () => {
  const line = fc.constantFrom('', 'text', '- item', '  more', '```', '~~~~', '# head');
  fc.assert(
    fc.property(fc.array(line), (lines) => {
      const text = lines.join('\n');
      assert.equal(splitBlocks(text).join('\n'), text);
    }),
  );
  assert.deepEqual(splitBlocks('a\n\nb\n\n```\nx\n\ny\n```\n\n- c\n\n  d\n\ne'), [
    'a\n',
    'b\n',
    '```\nx\n\ny\n```\n',
    '- c\n\n  d\n',
    'e',
  ]);
});

test('Numbers of listings and addresses become links, except in links and code', () => {
  const text = (value: string): HtmlNode => ({ type: 'text', value });
  const element = (tagName: string, ...children: HtmlNode[]): HtmlNode => ({
    type: 'element',
    tagName,
    children,
  });
  const tree = element(
    'p',
    text('See #22, C#5 and https://a.test/x).'),
    element('code', text('#7')),
    element('a', text('#8')),
  );
  linkTexts()(tree);
  const links = tree.children?.filter(({ properties }) => properties !== undefined);
  assert.deepEqual(
    links?.map(({ properties }) => properties?.['href']),
    ['/app/listings/22', 'https://a.test/x'],
  );
  assert.equal(
    tree.children?.map(({ value, children }) => value ?? children?.[0]?.value).join(''),
    'See #22, C#5 and https://a.test/x).#7#8',
  );
});

test('Links lead to http, https and pages of the console only', () => {
  for (const address of ['https://a.test/x', 'http://a.test/', '/app/listings/1'])
    assert.equal(sanitizeAddress(address), address);
  for (const address of [
    'javascript:alert(1)',
    'data:text/html,x',
    '//a.test',
    '/app//a.test',
    '/auth/logout',
    'mailto:a@a.test',
    '',
  ])
    assert.equal(sanitizeAddress(address), '');
});

const message = (id: string, role: string, members: Partial<Message> = {}): Message => ({
  id,
  role,
  content: id,
  created_at: null,
  ...members,
});

test('Steps are read from events and from stored answers', () => {
  const tool = { step_id: 's', name: 'search_listings', title: 'Searching' };
  const events = { session_id: 'x', turn_id: 't', seq: 1 };
  const input = { query: 'парк', city: ['Львів', 'Київ'], price_max: 9, limit: 5 };
  const started = applyToolEvent([], { type: 'tool.started', ...events, tool: { ...tool, input } });
  assert.equal(started[0]?.status, 'running');
  const finished = {
    ...tool,
    status: 'done' as const,
    summary: '',
    changes: [],
    listing_ids: [3, 1],
  };
  const [step] = applyToolEvent(started, { type: 'tool.finished', ...events, tool: finished });
  assert.ok(step);
  assert.deepEqual([step.status, step.listingIds], ['done', [3, 1]]);
  const address = new URL(createSearchAddress(step) ?? '', 'https://a.test');
  assert.equal(address.pathname, '/app/search');
  assert.deepEqual(
    [...address.searchParams],
    [
      ['q', 'парк'],
      ['city', 'Львів'],
      ['city', 'Київ'],
      ['price_max', '9'],
    ],
  );

  const fact = { category: 'wishes', key: 'city', value: 'Львів' };
  const stored = readStoredSteps(
    message('a', 'assistant', {
      tool_calls: [
        { name: 'search_listings', input, output: '{"listing_ids":[1,2]}', round: 0 },
        { name: 'get_listing', input: {}, output: '{"listing_ids":[2]}', round: 1 },
        { name: 'remember_fact', input: fact, output: JSON.stringify({ remembered: fact }) },
        { name: 'get_listing', input: {}, output: '{"error":"not found"}' },
        { name: 'older', input: null, output: 'no JSON' },
      ],
    }),
  );
  assert.deepEqual(collectListingIds(stored), [2, 1]);
  assert.deepEqual(stored[2]?.changes, [{ ...fact, previous: null }]);
  assert.deepEqual(
    stored.map(({ status }) => status),
    ['done', 'done', 'done', 'failed', 'done'],
  );
  assert.deepEqual(readStoredSteps(message('b', 'assistant', { tool_calls: 'older' })), []);
});

const session: Session = {
  session_id: 's',
  profile_id: 'default',
  user_id: 'u',
  name: '',
  message_count: 0,
  pinned: false,
  created_at: '2026-03-02T09:15:00.000Z',
  last_active: '2026-03-02T09:15:00.000Z',
};

/** Creates an answer that fails without any event. */
function failAnswer(error: Error): ReturnType<ChatClient['send']> {
  async function next(): Promise<never> {
    throw error;
  }
  return { [Symbol.asyncIterator]: () => ({ next }) };
}

/** Opens a conversation whose client answers as the test says. */
function openConversation(send: ChatClient['send'], stored: Message[] = []) {
  const items = new Map<string, string>();
  const drafts = createDraftStore(
    {
      getItem: (key) => items.get(key) ?? null,
      setItem: (key, value) => void items.set(key, value),
      removeItem: (key) => void items.delete(key),
    },
    'u',
  );
  const client: Partial<ChatClient> = {
    openSession: () => Promise.resolve({ session, messages: stored, answer: null }),
    send,
  };
  const conversation = new Conversation({
    sessionId: 's',
    getClient: () => Promise.resolve(client as ChatClient),
    requestMessages: () => Promise.resolve({ data: { messages: [] }, next: null }),
    drafts,
    schedule: (show) => show(),
  });
  return { conversation, drafts, items };
}

test('A rejected message comes back before what was typed meanwhile', async () => {
  const { conversation, drafts } = openConversation(() => {
    drafts.writeDraft('s', 'second');
    return failAnswer(new ChatError('rejected', 'An answer is running'));
  });
  await conversation.open();
  await conversation.send('first');
  assert.equal(drafts.readDraft('s'), 'first\nsecond');
  assert.equal(drafts.readSent('s'), undefined);
  const { failure, pendingText } = conversation.getState();
  assert.deepEqual([failure?.of, pendingText], ['message', undefined]);
});

test('A message that was not confirmed before the end is sent again with its name, unless it is stored', async () => {
  const sent: unknown[] = [];
  const fail: ChatClient['send'] = (_sessionId, text, id) => {
    sent.push([text, id]);
    return failAnswer(new ChatError('signed_out', 'The sign-in has ended'));
  };
  const { conversation, drafts } = openConversation(fail);
  await conversation.open();
  await conversation.send('hello', 'm-1');
  assert.equal(conversation.getState().pendingText, 'hello');
  await conversation.open();
  await until('the message to be sent again', () => sent.length === 2);
  assert.deepEqual(sent[1], ['hello', 'm-1']);
  assert.deepEqual(drafts.readSent('s'), { text: 'hello', clientMessageId: 'm-1' });

  const stored = openConversation(fail, [message('q', 'user', { client_message_id: 'm-1' })]);
  stored.drafts.writeSent('s', { text: 'hello', clientMessageId: 'm-1' });
  await stored.conversation.open();
  assert.equal(stored.drafts.readSent('s'), undefined);
  assert.equal(sent.length, 2);
});
