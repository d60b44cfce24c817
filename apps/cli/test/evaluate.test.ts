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
import {
  ALL_FIELDS,
  countCorrect,
  createOutcome,
  createTallies,
  scoreText,
  sumTallies,
} from '../src/evaluate/score.ts';
import { computeMcNemarP, computeWilsonInterval } from '../src/evaluate/statistics.ts';
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
  const accuracies = lines.slice(lines.findIndex((line) => line.startsWith('accuracy ')));
  assert.deepEqual(findRow(accuracies, 'price'), [
    '2',
    '50.0 % (9.5–90.5)',
    '100.0 % (34.2–100.0)',
  ]);
  // A text without a usable answer is wrong, even if it has no listing.
  assert.equal(findRow(accuracies, 'is_listing')[1], '66.7 % (20.8–93.9)');
  assert.deepEqual(findRow(accuracies, 'address'), ['0', '–', '–']);
  assert.deepEqual(findRow(accuracies, ALL_FIELDS).slice(0, 2), ['3', '0.0 % (0.0–56.1)']);
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
  const tally = { right: 0, wrong: 0, missed: 2, precision: null, recall: 0 };
  const price = { ...tally, texts: 2, correct: 0, accuracy: 0 };
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

/** Runs a model that gives one price for every listing, and saves the run. */
async function saveRun(name: string, price: number, args: string[]): Promise<string> {
  const content = JSON.stringify({ ...NOTHING, price });
  const { env } = await startModel(() => createCompletion(content));
  const { status, stdout, stderr } = await evaluate([...args, '--json'], {
    ...env,
    MODEL_CHAT: name,
  });
  assert.equal(status, 0, stderr);
  const path = join(folder, `${name}.json`);
  writeFileSync(path, stdout);
  return path;
}

test('--compare shows both runs by field, the texts that differ, and how likely chance is', async () => {
  const file = writeTexts();
  const savedRun = await saveRun('small', 90_000, [file]);
  const { env } = await startModel(({ body }) => {
    const question = JSON.stringify(body);
    const price = question.includes('Здам') ? 9000 : 90_000;
    const facts = { is_listing: !question.includes('авто'), price, city: 'Київ' };
    return createCompletion(JSON.stringify({ ...NOTHING, ...facts }));
  });
  const { status, lines, stderr } = await evaluate([file, '--compare', savedRun], env);
  assert.equal(status, 0, stderr);
  const start = lines.findIndex((line) => line.startsWith('compared with small, prompt listing-'));
  const rows = lines.slice(start);
  assert.deepEqual(findRow(rows, 'accuracy'), [
    'texts',
    'tiny:1b',
    'compared',
    'difference',
    'gained',
    'lost',
    'p',
  ]);
  assert.deepEqual(findRow(rows, 'price'), ['2', '100.0 %', '50.0 %', '+50.0', '1', '0', '1.000']);
  assert.deepEqual(findRow(rows, 'rooms'), ['2', '50.0 %', '50.0 %', '0.0', '0', '0', '1.000']);
  assert.deepEqual(findRow(rows, 'address'), ['0', '–', '–', '–', '0', '0', '1.000']);
  assert.deepEqual(findRow(rows, ALL_FIELDS).slice(1, 4), ['66.7 %', '0.0 %', '+66.7']);

  const { stdout } = await evaluate([file, '--compare', savedRun, '--json'], env);
  const { comparison } = JSON.parse(stdout);
  assert.partialDeepStrictEqual(comparison, {
    model: 'small',
    fields: {
      price: {
        texts: 2,
        correct: 2,
        compared_correct: 1,
        difference: 0.5,
        gained: 1,
        lost: 0,
        p: 1,
      },
    },
    whole_texts: { texts: 3, correct: 2, compared_correct: 0, gained: 2, lost: 0 },
  });
});

test('--compare rejects a run with other texts and a file that is no run, before the model is asked', async () => {
  const file = writeTexts();
  const savedRun = await saveRun('other', 1, [file, '--limit', '2']);
  const { env, requests } = await startModel(() => createCompletion(JSON.stringify(NOTHING)));
  for (const [args, message] of [
    [[file, '--compare', savedRun], /has other texts: compare runs of the same file and --limit/],
    [[file, '--compare', file], /own\.jsonl is not the output of oselya evaluate --json/],
    [[file, '--compare', join(folder, 'none')], /there is no such file/],
  ] as const) {
    const { status, stderr } = await evaluate([...args], env);
    assert.equal(status, 1);
    assert.match(stderr, message);
  }
  assert.equal(requests.length, 0);
  const line = formatText('flat', 'Здам квартиру', { is_listing: true });
  const twins = join(folder, 'twins.jsonl');
  writeFileSync(twins, line + line);
  const twinRun = await saveRun('twins', 1, [twins]);
  const { stderr } = await evaluate([twins, '--compare', twinRun], env);
  assert.match(stderr, /two texts have the same name/);
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

test('The outcome of a text has each judged field, and all of them together', () => {
  const expected = { is_listing: true, price: 5, city: null };
  const outcomes = [
    createOutcome(expected, []),
    createOutcome(expected, ['price']),
    createOutcome(expected, undefined),
    createOutcome({ is_listing: false }, []),
  ];
  assert.deepEqual(countCorrect(outcomes, 'price'), { texts: 3, correct: 1 });
  assert.deepEqual(countCorrect(outcomes, 'city'), { texts: 3, correct: 2 });
  assert.deepEqual(countCorrect(outcomes, 'rooms'), { texts: 0, correct: 0 });
  assert.deepEqual(countCorrect(outcomes, ALL_FIELDS), { texts: 4, correct: 2 });
});

test('Intervals of a share are those of Wilson', () => {
  // Newcombe, Statistics in Medicine 17 (1998), table I.
  for (const [correct, total, low, high] of [
    [81, 263, 0.2553, 0.3662],
    [15, 148, 0.0624, 0.1605],
    [0, 20, 0, 0.1611],
    [1, 29, 0.0061, 0.1718],
    [20, 20, 0.8389, 1],
  ] as const) {
    const interval = computeWilsonInterval(correct, total)?.map((bound) =>
      Number(bound.toFixed(4)),
    );
    assert.deepEqual(interval, [low, high], `${correct} of ${total}`);
  }
  assert.equal(computeWilsonInterval(0, 0), null);
});

test('The test of a difference is exact, and holds for many texts', () => {
  for (const [gained, lost, p] of [
    [0, 0, 1],
    [5, 5, 1],
    [0, 6, 2 / 64],
    [9, 1, 22 / 1024],
    [1, 9, 22 / 1024],
    [5000, 5000, 1],
    [3000, 0, 0],
  ] as const) {
    assert.ok(Math.abs(computeMcNemarP(gained, lost) - p) < 1e-9, `${gained} and ${lost}`);
  }
});

test('A text without a listing is right if the model finds none', () => {
  assert.deepEqual(scoreFacts({ is_listing: false }, {}, false).fields, []);
  const { tallies, fields } = scoreFacts({ is_listing: false }, { price: 3500 });
  assert.deepEqual(tallies.get('is_listing'), { right: 0, wrong: 1, missed: 0 });
  assert.deepEqual(fields, ['is_listing']);
});
