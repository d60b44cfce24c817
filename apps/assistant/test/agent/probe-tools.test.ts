import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createModelClient } from '@oselya/model';
import {
  type Answer,
  chunk,
  type ReceivedRequest,
  startModelServer,
  streamed,
  toolCallChunk,
} from '@oselya/model/testing';
import { probeTools } from '../../src/agent/index.ts';
import { TOOL_NAMES } from '../../src/tools/tool.ts';
import { unconnectedTools as tools } from '../helpers/unconnected-tools.ts';

/** Probes a model server that answers so, and gives the first line of the log. */
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
  const probing = probeTools({ MODEL_MODE: 'openai' }, { model, tools, log });
  t.after(async () => {
    await probing.close();
    await model.close();
    await server.close();
  });
  return { line: await line.promise, requests };
}

test('a model that calls a tool is given all tools, and is one line', async (t) => {
  const call = toolCallChunk({ id: '1', name: 'search_listings', arguments: '{"query":"Львів"}' });
  const { line, requests } = await probe(t, streamed([call, chunk({}, { finishReason: 'stop' })]));
  assert.equal(line, 'info Probed the model server: tools work.');
  const sent = requests[0]?.body as { tools: { function: { name: string } }[] };
  const names = sent.tools.map((tool) => tool.function.name);
  assert.deepEqual(names.toSorted(), [...TOOL_NAMES].toSorted());
});

test('a model that talks in place of a call is a line that names the setting', async (t) => {
  const stop = chunk({}, { finishReason: 'stop' });
  const { line } = await probe(t, streamed([chunk({ content: 'Ось.' }), stop]));
  assert.match(line, /^warn .*tools do not work\. MODEL_CHAT \(talker\) answered a search without/);
});

test('a server that knows no tools is a line with its sentence', async (t) => {
  const body = { error: { message: 'talker does not support tools' } };
  const { line } = await probe(t, { status: 400, body });
  assert.match(
    line,
    /^warn .*tools do not work\..*talker does not support tools.*needs a MODEL_CHAT/,
  );
});
