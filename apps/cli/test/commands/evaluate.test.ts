import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { closedAddress, type Played, type Received, startServer } from '../support/loopback.ts';

const BIN = join(import.meta.dirname, '../../bin/oselya.js');
const folder = mkdtempSync(join(tmpdir(), 'oselya-evaluate-'));
after(() => rmSync(folder, { recursive: true }));

async function evaluate(args: string[], env: Record<string, string> = {}) {
  const child = spawn(process.execPath, [BIN, 'evaluate', ...args], {
    cwd: folder,
    env: { PATH: process.env['PATH'] ?? '', ...env },
  });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (chunk) => (stdout += String(chunk)));
  child.stderr.on('data', (chunk) => (stderr += String(chunk)));
  const [status] = (await once(child, 'close')) as [number | null];
  return { status, stdout, lines: stdout.split('\n').slice(0, -1), stderr };
}

const NOTHING = {
  is_listing: true,
  phones: [],
  features: [],
  ...Object.fromEntries(
    'reason language title summary deal_type property_type price currency city district address rooms area_total area_living area_kitchen floor floors_total contact_name'
      .split(' ')
      .map((key) => [key, null]),
  ),
};

/** A server whose model answers each question as it is told, and embeds in 384 numbers. */
async function startModel(answer: (request: Received) => Played, dimensions = 384) {
  const requests: Received[] = [];
  const { url } = await startServer((request) => {
    requests.push(request);
    if (!request.path.endsWith('/embeddings')) return answer(request);
    return { body: { data: [{ index: 0, embedding: Array<number>(dimensions).fill(0.5) }] } };
  });
  const env = {
    MODEL_MODE: 'openai',
    MODEL_BASE_URL: `${url}/v1`,
    MODEL_CHAT: 'tiny:1b',
    MODEL_EMBEDDING: 'tiny-embed',
  };
  return { requests, env };
}

function completion(content: string, more: object = {}): Played {
  return {
    body: {
      model: 'tiny:1b',
      choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content } }],
      ...more,
    },
  };
}

/** A row of the table by its first word, its cells apart. */
function row(lines: string[], first: string): string[] {
  const line = lines.find((text) => text.startsWith(`${first} `)) ?? '';
  return line
    .slice(first.length)
    .trim()
    .split(/\s{2,}/);
}

const text = (name: string, description: string, expected: object) =>
  `${JSON.stringify({ name, payload: { description }, expected })}\n`;

function writeTexts(): string {
  writeFileSync(
    join(folder, 'own.jsonl'),
    text('flat', 'Здам 2-кімнатну квартиру у Львові, 9000 грн', {
      is_listing: true,
      price: 9000,
      rooms: 2,
      city: 'Львів',
    }) +
      text('house', 'Продам будинок, 90 000 $, Київ', {
        is_listing: true,
        price: 90_000,
        rooms: null,
        city: 'Київ',
      }) +
      text('car', 'Продам авто, 5000 $', { is_listing: false }),
  );
  return 'own.jsonl';
}

test('the mock alone needs neither a key nor a server, and writes nothing', async () => {
  const { status, lines, stderr } = await evaluate([]);
  assert.equal(status, 0, stderr);
  assert.match(lines[0] ?? '', /^45 texts, prompt listing-extraction\.[0-9a-f]{8}$/);
  const [values, precision, recall] = row(lines, 'price');
  assert.ok(Number(values) >= 30);
  assert.ok(Number.parseFloat(precision ?? '') >= 90 && Number.parseFloat(recall ?? '') >= 90);
  assert.match(lines.at(-1) ?? '', /^This is the mock\. .*docs\/models\.md\.$/);
  assert.deepEqual(readdirSync(folder), []);
});

test('a model stands beside the mock, with its calls, tokens and time', async () => {
  const { requests, env } = await startModel(({ body }) => {
    const question = JSON.stringify(body);
    if (question.includes('авто')) return completion('{"is_listing": "no"}');
    const usage = { prompt_tokens: 100, completion_tokens: 10 };
    // It has three rooms and one city for everything.
    const answer = {
      ...NOTHING,
      price: question.includes('Здам') ? 9000 : null,
      rooms: 3,
      city: 'Київ',
    };
    return completion(JSON.stringify(answer), { usage });
  });
  const { status, lines, stderr } = await evaluate([writeTexts(), '--verbose'], env);
  assert.equal(status, 0, stderr);
  assert.deepEqual(row(lines, 'price'), ['2', '100.0 %', '50.0 %', '100.0 %', '100.0 %']);
  assert.deepEqual(row(lines, 'rooms'), ['1', '0.0 %', '0.0 %', '100.0 %', '100.0 %']);
  assert.deepEqual(row(lines, 'city'), ['2', '50.0 %', '50.0 %', '100.0 %', '100.0 %']);
  assert.deepEqual(row(lines, 'address'), ['0', '–', '–', '–', '–']);
  // Two texts, and one whose answer was sent back once: without tokens, since it gave none.
  assert.deepEqual(row(lines, 'tiny:1b').slice(0, 3), ['4', '200', '20']);
  assert.ok(lines.includes('tiny:1b: flat: rooms is 3, not 2'));
  assert.ok(lines.includes('tiny:1b: house: price is null, not 90000'));
  assert.ok(lines.some((line) => line.startsWith('tiny:1b gave no answer of use to 1 text, ')));
  assert.ok(lines.some((line) => /^ {2}car: The model's answer fails its schema: /.test(line)));
  assert.equal(
    lines.at(-1),
    'Embeddings work: tiny-embed gives 384 numbers, as EMBEDDING_DIMENSIONS says.',
  );
  assert.equal(requests.filter(({ path }) => path.endsWith('/embeddings')).length, 1);
});

test('--json has the same for machines; --limit takes the first texts', async () => {
  const { env } = await startModel(() => completion(JSON.stringify(NOTHING)), 768);
  const { status, stdout, stderr } = await evaluate([writeTexts(), '--json', '--limit', '2'], env);
  assert.equal(status, 0, stderr);
  const report: {
    texts: number;
    models: {
      model: string;
      calls: number;
      input_tokens: number | null;
      fields: Record<string, unknown>;
    }[];
    embedding: { error: { code: string } };
  } = JSON.parse(stdout);
  assert.equal(report.texts, 2);
  assert.deepEqual(
    report.models.map(({ model, calls }) => [model, calls]),
    [
      ['tiny:1b', 2],
      ['mock', 2],
    ],
  );
  assert.equal(report.models[0]?.input_tokens, null, 'a server that counts no tokens');
  assert.deepEqual(report.models[0]?.fields['price'], {
    right: 0,
    wrong: 0,
    missed: 2,
    precision: null,
    recall: 0,
  });
  assert.equal(report.embedding.error.code, 'MODEL_INVALID_OUTPUT');
});

const broken: [name: string, answer: Played | undefined, said: RegExp][] = [
  [
    'that is not there',
    undefined,
    /cannot be reached \(ECONNREFUSED\)\. Is it running at MODEL_BASE_URL\?/,
  ],
  [
    'without the model',
    { status: 404, body: { error: { message: 'model "tiny:1b" not found' } } },
    /model "tiny:1b" not found.*name of the model/,
  ],
  ['that wants a key', { status: 401, body: { error: 'no' } }, /Check MODEL_API_KEY/],
  ['that is a web page', { body: '<html>' }, /gave no answer of use to any text.*MODEL_BASE_URL/],
];
for (const [name, answer, said] of broken) {
  test(`a server ${name} is told in one line with what to do`, async () => {
    const { env } = await startModel(() => answer ?? {});
    const address = answer === undefined ? { MODEL_BASE_URL: `${await closedAddress()}/v1` } : {};
    const { status, stdout, stderr } = await evaluate([writeTexts()], { ...env, ...address });
    assert.equal(status, 1);
    assert.equal(stdout, '');
    const line = stderr.trim().split('\n').at(-1) ?? '';
    assert.match(line, /^oselya: the model .* See docs\/models\.md$/);
    assert.match(line, said);
  });
}

test('a setting that is missing is named', async () => {
  const { status, stderr } = await evaluate([], { MODEL_MODE: 'openai', MODEL_CHAT: 'x' });
  assert.equal(status, 1);
  assert.match(stderr, /MODEL_BASE_URL is not set: MODEL_MODE=openai needs it/);
});
