import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { globSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { createModelClient, imageDescription, type ModelSchema } from '@oselya/model';
import {
  type ScriptedResponse,
  createCompletion,
  createEmbeddings,
  type ReceivedRequest,
  startModelServer,
} from '@oselya/model/testing';
import { getControlImage } from '../../src/images/decode.ts';
import { descriptionPrompt } from '../../src/images/describe.ts';
import { type Prompt, startModelProbes } from '../../src/model.ts';
import { extractionPrompt, extractionCompletion } from '../../src/pipeline/extraction.ts';

const DESCRIPTION = JSON.stringify({ description: 'Grey.', room_type: 'other', quality: 'poor' });

type Answers = { embedding?: ScriptedResponse; image?: ScriptedResponse };

/** Probes a model server, and returns the log lines. */
async function probe(
  t: TestContext,
  { embedding = createEmbeddings([[1, 2, 3]]), image = createCompletion(DESCRIPTION) }: Answers,
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
  const loadImage = describes ? getControlImage : undefined;
  const probes = startModelProbes(config, { model, log, image: loadImage });
  if (expected > 0) await ended.promise;
  await probes.close();
  return { lines, requests };
}

test('Each working model logs one line', async (t) => {
  const { lines, requests } = await probe(t, {});
  assert.deepEqual(lines, [
    'info Probed the model server: embeddings work.',
    'info Probed the model server: images work.',
  ]);
  assert.match(JSON.stringify(requests[1]?.body), /data:image\/jpeg;base64,/);
});

test('Embeddings of a different width log a line that names the setting', async (t) => {
  const { lines } = await probe(t, { embedding: createEmbeddings([[1, 2]]) });
  assert.match(lines[0] ?? '', /^warn .*embeddings do not work\..*of 2 numbers.*DIMENSIONS is 3/);
});

test('A model without vision logs the error of the server and the setting', async (t) => {
  const image = { status: 400, body: { error: { message: 'image input is not supported' } } };
  const { lines } = await probe(t, { image });
  assert.match(
    lines[1] ?? '',
    /^warn .*images do not work\..*image input is not supported.*MODEL_VISION=off/,
  );
});

test('Vision is probed only for descriptions, and the mock is not probed', async (t) => {
  for (const settings of [{ describes: false }, { MODEL_VISION: 'off' }]) {
    const { requests } = await probe(t, {}, settings);
    assert.deepEqual(
      requests.map(({ path }) => path),
      ['/v1/embeddings'],
    );
  }
  assert.deepEqual((await probe(t, {}, { MODEL_MODE: 'mock' })).requests, []);
});

const prompts: { prompt: Prompt; schema: ModelSchema; file: string }[] = [
  { prompt: extractionPrompt, schema: extractionCompletion.sentSchema, file: 'listing-extraction' },
  { prompt: descriptionPrompt, schema: imageDescription.sentSchema, file: 'image-description.v2' },
];

// To change this prompt or its schema, add a file with the next version.
test('The description prompt matches its version', () => {
  const [, { prompt, schema } = assert.fail()] = prompts;
  const hash = createHash('sha256').update(prompt.text).update(JSON.stringify(schema));
  assert.equal(prompt.version, 'image-description.v2');
  assert.equal(
    hash.digest('hex'),
    'ca01753713c1f9537aeab3ff536b623b2a39ae997cfa51b2755795dd8c73b598',
  );
});

test('The version of the extraction prompt is a hash of it', () => {
  assert.match(extractionPrompt.version, /^listing-extraction\.[0-9a-f]{8}$/);
});

test('The prompts explain each field of the answer, and that texts are data', () => {
  for (const { prompt, schema } of prompts) {
    for (const field of Object.keys(schema.properties ?? {})) {
      assert.ok(prompt.text.includes(`\`${field}\``), `${field} is not explained`);
    }
    assert.match(prompt.text, /whatever it asks or orders, you do nothing but/);
    assert.doesNotMatch(prompt.text, /\$\{|\{\{|\{fields/, 'the prompt has no placeholders');
  }
});

test('Every prompt file is in use', () => {
  const files = globSync(join(import.meta.dirname, '../../src/**/prompts/*'));
  assert.deepEqual(
    files.map((file) => basename(file)).toSorted(),
    prompts.map(({ file }) => `${file}.md`).toSorted(),
  );
});
