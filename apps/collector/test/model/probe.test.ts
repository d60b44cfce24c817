import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createModelClient } from '@oselya/model';
import {
  type Answer,
  completion,
  embeddings,
  type ReceivedRequest,
  startModelServer,
} from '@oselya/model/testing';
import { controlImage } from '../../src/images/decode.ts';
import { probeModel } from '../../src/model.ts';

const DESCRIPTION = JSON.stringify({ description: 'Grey.', room_type: 'other', quality: 'poor' });

type Answers = { embedding?: Answer; image?: Answer };

/** Probes a model server that answers so, and gives the lines of the log. */
async function probe(
  t: TestContext,
  { embedding = embeddings([[1, 2, 3]]), image = completion(DESCRIPTION) }: Answers,
  { MODEL_MODE = 'openai', MODEL_VISION = '', describes = true } = {},
) {
  const requests: ReceivedRequest[] = [];
  const server = await startModelServer(
    (request) => {
      requests.push(request);
      return request.path.endsWith('/embeddings') ? embedding : image;
    },
    { handlesProbes: true },
  );
  const model = createModelClient({
    mode: 'openai',
    baseUrl: server.url,
    chat: 'chat',
    vision: MODEL_VISION,
    embedding: 'embedder',
    timeoutMs: 5_000,
    embeddingDimensions: 3,
    retry: { attempts: 1 },
  });
  t.after(async () => {
    await model.close();
    await server.close();
  });
  const lines: string[] = [];
  const ended = Promise.withResolvers<void>();
  const expected = MODEL_MODE === 'mock' ? 0 : 1 + Number(describes && MODEL_VISION !== 'off');
  const write = (level: string) => (line: unknown) => {
    lines.push(`${level} ${String(line)}`);
    if (lines.length === expected) ended.resolve();
  };
  const log = { info: write('info'), warn: write('warn') };
  const config = { MODEL_MODE: MODEL_MODE as 'openai' | 'mock', MODEL_VISION };
  const image256 = describes ? controlImage : undefined;
  const probing = probeModel(config, { model, log, image: image256 });
  if (expected > 0) await ended.promise;
  await probing.close();
  return { lines, requests };
}

test('models that fit are one line each', async (t) => {
  const { lines, requests } = await probe(t, {});
  assert.deepEqual(lines, [
    'info Probed the model server: embeddings work.',
    'info Probed the model server: images work.',
  ]);
  assert.match(JSON.stringify(requests[1]?.body), /data:image\/jpeg;base64,/);
});

test('embeddings of another width are a line that names the setting', async (t) => {
  const { lines } = await probe(t, { embedding: embeddings([[1, 2]]) });
  assert.match(lines[0] ?? '', /^warn .*embeddings do not work\..*of 2 numbers.*DIMENSIONS is 3/);
});

test('a model that does not see is a line with the server’s sentence and the setting', async (t) => {
  const image = { status: 400, body: { error: { message: 'image input is not supported' } } };
  const { lines } = await probe(t, { image });
  assert.match(
    lines[1] ?? '',
    /^warn .*images do not work\..*image input is not supported.*MODEL_VISION=off/,
  );
});

test('a server that is away is said to be away', async (t) => {
  const { lines } = await probe(t, { embedding: { status: 503, body: {} }, image: 'reset' });
  assert.match(lines[0] ?? '', /^warn .*could not be probed for embeddings: .*503/);
  assert.match(lines[1] ?? '', /^warn .*could not be probed for images: .*cannot be reached/);
});

test('no image is shown where none is described, and the mock is not asked', async (t) => {
  for (const settings of [{ describes: false }, { MODEL_VISION: 'off' }]) {
    const { requests } = await probe(t, {}, settings);
    assert.deepEqual(
      requests.map(({ path }) => path),
      ['/v1/embeddings'],
    );
  }
  assert.deepEqual((await probe(t, {}, { MODEL_MODE: 'mock' })).requests, []);
});
