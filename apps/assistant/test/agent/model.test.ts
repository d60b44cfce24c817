import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { type ChatPart, createModelClient } from '@oselya/model';
import {
  type Answer,
  chunk,
  type ReceivedRequest,
  startModelServer,
  streamed,
  toolCallChunk,
} from '@oselya/model/testing';
import { probeTools } from '../../src/conversations/agent/model.ts';
import { makeTitle } from '../../src/conversations/agent/title.ts';
import { checkInstructions } from '../../src/conversations/agent/window.ts';
import { SHIPPED_PROFILES } from '../../src/profiles/profiles.ts';
import { TOOLS } from '../../src/conversations/tools/tools.ts';
import { folderOf, openFolder, profile } from '../profiles/folder.ts';

/** Probes a model server with an answer, and returns the first line of the log. */
async function probe(t: TestContext, answer: Answer) {
  const requests: ReceivedRequest[] = [];
  const play = (request: ReceivedRequest) => {
    requests.push(request);
    return answer;
  };
  const server = await startModelServer(play, { handlesProbes: true });
  const model = createModelClient({
    mode: 'openai',
    baseUrl: server.url,
    chat: 'talker',
    embedding: false,
    embeddingDimensions: 1,
    timeoutMs: 5_000,
    retry: { attempts: 1 },
  });
  const line = Promise.withResolvers<string>();
  const write = (level: string) => (text: unknown) => line.resolve(`${level} ${String(text)}`);
  const log = { info: write('info'), warn: write('warn') };
  const probing = probeTools({ MODEL_MODE: 'openai' }, { model, log });
  t.after(async () => {
    await probing.close();
    await model.close();
    await server.close();
  });
  return { line: await line.promise, requests };
}

test('the start probes whether the chat model calls tools, and logs one line', async (t) => {
  const call = toolCallChunk({ id: '1', name: 'search_listings', arguments: '{"query":"Львів"}' });
  const stop = chunk({}, { finishReason: 'stop' });
  const good = await probe(t, streamed([call, stop]));
  assert.equal(good.line, 'info Probed the model server: tools work.');
  const { tools } = (good.requests[0]?.body ?? {}) as { tools?: object[] };
  assert.equal(tools?.length, TOOLS.length);

  const talking = await probe(t, streamed([chunk({ content: 'Ось.' }), stop]));
  assert.match(talking.line, /^warn .*tools do not work\. MODEL_CHAT \(talker\) answered a search/);
  const body = { error: { message: 'talker does not support tools' } };
  const { line } = await probe(t, { status: 400, body });
  assert.match(line, /^warn .*talker does not support tools.*needs a MODEL_CHAT/);
});

test('a title is one line of at most 80 characters, whatever the model writes', async () => {
  const { signal } = new AbortController();
  const titleOf = (streamChat: () => AsyncIterable<ChatPart>) =>
    makeTitle({ streamChat } as never, { text: 'Шукаю дім', modelName: '', signal });
  for (const [text, title] of [
    ['\n «Дім у Львові».\nОсь назва.', 'Дім у Львові'],
    [`${'x'.repeat(79)}🏠`, 'x'.repeat(79)],
    [`${'x'.repeat(78)}🏠🏠`, `${'x'.repeat(78)}🏠`],
    [' \n', ''],
  ] as const) {
    async function* once(): AsyncGenerator<ChatPart, void, undefined> {
      yield await Promise.resolve({ type: 'text', text } as const);
    }
    assert.equal(await titleOf(once), title);
  }
  for (const text of ['слово', ' ', '\t']) {
    let parts = 0;
    async function* endless(): AsyncGenerator<ChatPart, void, undefined> {
      for (; parts < 100_000; parts += 1) yield await Promise.resolve({ type: 'text', text });
    }
    assert.ok((await titleOf(endless)).length <= 80);
    assert.ok(parts < 300, `${parts} parts were read`);
  }
});

const within = (contextTokens: number) => ({ check: checkInstructions(contextTokens) });

test('a profile must leave room for questions in the window', async () => {
  assert.equal((await openFolder(SHIPPED_PROFILES, within(2048))).all().length, 3);
  const long = profile('long').replace('Help.', 'слово '.repeat(4000));
  const folder = await folderOf({ 'a.yaml': profile('a'), 'long.yaml': long });
  await openFolder(folder, within(32_768));
  const fault =
    /long\.yaml:1 system and tools are about 1\d{4} tokens, and MODEL_CONTEXT_TOKENS leaves them 7168: shorten system or list fewer tools, or raise/;
  await assert.rejects(openFolder(folder, within(8192)), fault);

  await writeFile(join(folder, 'long.yaml'), profile('long'));
  const profiles = await openFolder(folder, within(8192));
  await writeFile(join(folder, 'long.yaml'), long);
  await profiles.reload();
  await profiles.reload();
  assert.equal(profiles.find('long')?.system, 'Help.');
  assert.match(profiles.faultOf('long') ?? '', fault);
});
