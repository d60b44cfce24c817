import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  type ExpectedValues,
  GOLDEN_TEXTS_FILE,
  EVALUATED_FIELDS,
  readGoldenTexts,
} from '../src/evaluate/golden.ts';
import { createTallies, scoreText, sumTallies } from '../src/evaluate/score.ts';
import {
  openFolder,
  findUnusedUrl,
  type ReceivedRequest,
  type ScriptedResponse,
  startServer,
} from '@oselya/testing';
import { oselya } from './support/oselya.ts';

const folder = await openFolder();

const evaluate = (args: string[], env: Record<string, string> = {}) =>
  oselya(['evaluate', ...args], env);

const NOTHING = {
  is_listing: true,
  phones: [],
  features: [],
  ...Object.fromEntries(
    'reason language title summary deal_type property_type price price_per_m2 currency city district address rooms area_total area_living area_kitchen floor floors_total year_built contact_name offers'
      .split(' ')
      .map((key) => [key, null]),
  ),
};

/** Starts a model server with the given answers, and embeddings with the given number of dimensions. */
async function startModel(
  answer: (request: ReceivedRequest) => ScriptedResponse,
  dimensions = 384,
) {
  const { url, requests } = await startServer((request) => {
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

function createCompletion(content: string, fields: object = {}): ScriptedResponse {
  return {
    body: {
      model: 'tiny:1b',
      choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content } }],
      ...fields,
    },
  };
}

/** Returns the cells of the row that begins with a word. */
function findRow(lines: string[], first: string): string[] {
  const line = lines.find((text) => text.startsWith(`${first} `)) ?? '';
  return line
    .slice(first.length)
    .trim()
    .split(/\s{2,}/);
}

const formatText = (name: string, description: string, expected: object) =>
  `${JSON.stringify({ name, payload: { description }, expected })}\n`;

function writeTexts(): string {
  const path = join(folder, 'own.jsonl');
  const flat = { is_listing: true, price: 9000, rooms: 2, city: 'Львів' };
  const house = { is_listing: true, price: 90_000, rooms: null, city: 'Київ' };
  writeFileSync(
    path,
    formatText('flat', 'Здам 2-кімнатну квартиру у Львові, 9000 грн', flat) +
      formatText('house', 'Продам будинок, 90 000 $, Київ', house) +
      formatText('car', 'Продам авто, 5000 $', { is_listing: false }),
  );
  return path;
}

test('The mock needs neither a key nor a server, and no database', async () => {
  const { status, lines, stderr } = await evaluate([]);
  assert.equal(status, 0, stderr);
  assert.match(lines[0] ?? '', /^500 texts, prompt listing-extraction\.[0-9a-f]{8}$/);
  const [values, precision = '', recall = ''] = findRow(lines, 'price');
  assert.ok(Number(values) >= 400);
  // Some texts are written in Latin letters or in other ways that the rules of the mock do not cover.
  assert.ok(Number.parseFloat(precision) >= 90 && Number.parseFloat(recall) >= 80);
  assert.match(lines.at(-1) ?? '', /^This is the mock\. .*docs\/models\.md\.$/);
});

test('A model is shown beside the mock with its calls, tokens and time', async () => {
  const { requests, env } = await startModel(({ body }) => {
    const question = JSON.stringify(body);
    if (question.includes('авто')) return createCompletion('{"is_listing": "no"}');
    const usage = { prompt_tokens: 100, completion_tokens: 10 };
    // The model returns three rooms and the same city for both listings.
    const price = question.includes('Здам') ? 9000 : null;
    const content = JSON.stringify({ ...NOTHING, price, rooms: 3, city: 'Київ' });
    return createCompletion(content, { usage });
  });
  const { status, lines, stderr } = await evaluate([writeTexts(), '--verbose'], env);
  assert.equal(status, 0, stderr);
  assert.deepEqual(findRow(lines, 'price'), ['2', '100.0 %', '50.0 %', '100.0 %', '100.0 %']);
  assert.deepEqual(findRow(lines, 'rooms'), ['1', '0.0 %', '0.0 %', '100.0 %', '100.0 %']);
  assert.deepEqual(findRow(lines, 'city'), ['2', '50.0 %', '50.0 %', '100.0 %', '100.0 %']);
  assert.deepEqual(findRow(lines, 'address'), ['0', '–', '–', '–', '–']);
  // The completions of one text, which needs two attempts, report no tokens.
  assert.deepEqual(findRow(lines, 'tiny:1b').slice(0, 3), ['4', '200', '20']);
  assert.ok(lines.includes('tiny:1b: flat: rooms is 3, not 2'));
  assert.ok(lines.includes('tiny:1b: house: price is null, not 90000'));
  assert.ok(lines.some((line) => line.startsWith('tiny:1b gave no usable answer to 1 text, ')));
  assert.ok(lines.some((line) => /^ {2}car: The model's answer fails its schema: /.test(line)));
  assert.equal(
    lines.at(-1),
    'Embeddings work: tiny-embed gives 384 numbers, which matches EMBEDDING_DIMENSIONS.',
  );
  assert.equal(requests.filter(({ path }) => path.endsWith('/embeddings')).length, 1);
});

test('--json prints the figures, and --limit takes the first texts', async () => {
  const { env } = await startModel(() => createCompletion(JSON.stringify(NOTHING)), 768);
  const { status, stdout, stderr } = await evaluate([writeTexts(), '--json', '--limit', '2'], env);
  assert.equal(status, 0, stderr);
  const report = JSON.parse(stdout);
  assert.equal(report.models[0].input_tokens, null, 'a server that counts no tokens');
  const price = { right: 0, wrong: 0, missed: 2, precision: null, recall: 0 };
  assert.equal(report.models.length, 2);
  assert.partialDeepStrictEqual(report, {
    texts: 2,
    models: [
      { model: 'tiny:1b', calls: 2, fields: { price } },
      { model: 'mock', calls: 2 },
    ],
    embedding: { error: { code: 'MODEL_INVALID_OUTPUT' } },
  });
});

test('A failed server is reported in one line with advice', async () => {
  const cases: [answer: ScriptedResponse | undefined, line: RegExp][] = [
    [undefined, /cannot be reached \(ECONNREFUSED\)\. Check that it runs at MODEL_BASE_URL\./],
    [
      { status: 404, body: { error: { message: 'model "tiny:1b" not found' } } },
      /model "tiny:1b" not found.*name of the model/,
    ],
    [{ status: 401, body: { error: 'no' } }, /Check MODEL_API_KEY/],
    [{ body: '<html>' }, /gave no usable answer to any text.*MODEL_BASE_URL/],
  ];
  for (const [answer, expected] of cases) {
    const { env } = await startModel(() => answer ?? {});
    const address = answer === undefined ? { MODEL_BASE_URL: `${await findUnusedUrl()}/v1` } : {};
    const { status, stdout, stderr } = await evaluate([writeTexts()], { ...env, ...address });
    assert.deepEqual([status, stdout], [1, '']);
    const line = stderr.trim().split('\n').at(-1) ?? '';
    assert.match(line, /^oselya: the model .* See docs\/models\.md$/);
    assert.match(line, expected);
  }
});

const texts = await readGoldenTexts(GOLDEN_TEXTS_FILE);

test('The golden texts have every language, deal and property type, and texts without a listing', () => {
  assert.equal(texts.length, 500);
  assert.equal(new Set(texts.map(({ name }) => name)).size, texts.length);
  for (const [field, expectedValues] of Object.entries({
    language: 'en mixed ru uk',
    deal_type: 'daily_rent rent sale',
    property_type: 'apartment commercial garage house land room',
  })) {
    const values = new Set(texts.flatMap(({ expected }) => expected[field] ?? []));
    assert.equal([...values].map(String).toSorted().join(' '), expectedValues);
  }
  assert.ok(texts.filter(({ expected }) => expected['is_listing'] === false).length >= 6);
});

const hasNoValue = (value: unknown) =>
  value === null || (Array.isArray(value) && value.length === 0);

test('Each judged field has values, and is missing in some text', () => {
  const commonFields = new Set(['is_listing', 'language', 'deal_type', 'property_type']);
  for (const field of EVALUATED_FIELDS) {
    const values = texts.map(({ expected }) => expected[field]);
    assert.ok(
      values.filter((value) => value !== undefined && !hasNoValue(value)).length >= 3,
      field,
    );
    assert.ok(commonFields.has(field) || values.some(hasNoValue), field);
  }
});

test('The golden payloads contain no extracted fields and no real phones', () => {
  for (const { name, payload } of texts) {
    const fields = Object.keys(payload).filter(
      (key) => !['source_slug', 'external_id', 'title', 'description'].includes(key),
    );
    assert.deepEqual(fields, [], name);
    for (const [phone] of payload.description.matchAll(/\+?\d[\d ()-]{8,}\d/g)) {
      assert.match(phone.replaceAll(/\D/g, ''), /^(380)?0{2,3}\d/, `${name}: ${phone}`);
    }
  }
});

test('An invalid file of texts is rejected with its line', async () => {
  const path = join(folder, 'bad.jsonl');
  for (const [line, message] of [
    ['{', /bad\.jsonl:2: it is not JSON/],
    ['{"name":"a","payload":{"description":"x"}}', /:2: must .*: see samples\/README\.md/],
    ['{"name":"a","payload":{"description":"x"},"expected":{"cost":5}}', /:2: /],
    [
      '{"name":"a","payload":{"description":"x","price":-1},"expected":{}}',
      /payload\/price must be >= 0/,
    ],
  ] as const) {
    writeFileSync(path, `{"name":"ok","payload":{"description":"x"},"expected":{}}\n${line}\n`);
    await assert.rejects(readGoldenTexts(path), { name: 'CommandError', message });
  }
  await assert.rejects(readGoldenTexts(join(folder, 'none')), /there is no such file/);
  await assert.rejects(readGoldenTexts(folder), /cannot be read: it is a folder/);
  writeFileSync(path, '\n');
  await assert.rejects(readGoldenTexts(path), /has no texts/);
});

type Facts = Record<string, unknown>;

function scoreFacts(expected: ExpectedValues, facts: Facts, isListing = true) {
  const tallies = createTallies();
  const differences = scoreText(tallies, expected, { isListing, facts });
  return { tallies, fields: differences.map(({ field }) => field) };
}

const scoreCases: [
  name: string,
  expected: ExpectedValues,
  facts: Facts,
  counts: [number, number, number],
][] = [
  ['a right number', { price: 5 }, { price: 5 }, [1, 0, 0]],
  ['a wrong number, which is also missed', { price: 5 }, { price: 6 }, [0, 1, 1]],
  ['a missed number', { price: 5 }, {}, [0, 0, 1]],
  ['a number out of nothing', { price: null }, { price: 6 }, [0, 1, 0]],
  ['nothing where nothing is', { price: null }, {}, [0, 0, 0]],
  ['a field that is not judged', {}, { price: 6 }, [0, 0, 0]],
  ['zero, which is a value', { floor: 0 }, { floor: 0 }, [1, 0, 0]],
  ['any of several forms', { city: ['Львів', 'Lviv'] }, { city: 'Lviv' }, [1, 0, 0]],
  ['another spelling', { city: "Кам'янець" }, { city: 'КАМ’ЯНЕЦЬ ' }, [1, 0, 0]],
  ['other punctuation', { address: 'вул. Наукова, 45' }, { address: 'вул Наукова 45' }, [1, 0, 0]],
  ['another number of the house', { address: 'Наукова 45' }, { address: 'Наукова 4' }, [0, 1, 1]],
  ['a choice in another case', { deal_type: 'sale' }, { deal_type: 'Sale' }, [0, 1, 1]],
  ['phones by their digits', { phones: ['+380001'] }, { phones: ['+380 (00) 1'] }, [1, 0, 0]],
  ['one of two phones, and another', { phones: ['1', '2'] }, { phones: ['2', '3'] }, [1, 1, 1]],
  ['one of two phones, twice', { phones: ['12', '3'] }, { phones: ['12', '1 2'] }, [1, 0, 1]],
  ['no phones', { phones: [] }, { phones: [] }, [0, 0, 0]],
];

test('Values are counted as right, wrong and missed', () => {
  for (const [name, expected, facts, [right, wrong, missed]] of scoreCases) {
    const { tallies } = scoreFacts(expected, facts);
    assert.deepEqual(sumTallies(tallies), { right, wrong, missed }, name);
  }
});

test('All values are missed if the model finds no listing', () => {
  const { tallies, fields } = scoreFacts({ is_listing: true, price: 5, city: null }, {}, false);
  assert.deepEqual(tallies.get('is_listing'), { right: 0, wrong: 0, missed: 1 });
  assert.deepEqual(tallies.get('price'), { right: 0, wrong: 0, missed: 1 });
  assert.deepEqual(fields, ['is_listing', 'price']);
});

test('A text without a listing is right if the model finds none', () => {
  assert.deepEqual(scoreFacts({ is_listing: false }, {}, false).fields, []);
  const { tallies, fields } = scoreFacts({ is_listing: false }, { price: 3500 });
  assert.deepEqual(tallies.get('is_listing'), { right: 0, wrong: 1, missed: 0 });
  assert.deepEqual(fields, ['is_listing']);
});
