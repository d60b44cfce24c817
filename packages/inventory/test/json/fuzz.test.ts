import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inChunks, validate, VALID_RECORD, withoutRest } from '../support/findings.ts';

// Texts that are close to JSON in many ways, made from a few by small changes. The seed is printed with each
// failure; another one is tried with FUZZ_SEED.
const SEED = Number(process.env['FUZZ_SEED'] ?? 20_261_120);
const DOCUMENTS = 100_000;

const SEEDS = [
  '[]',
  '[{}]',
  '[{"a":{"b":[1,-0.5e+10,true,null]}},"x",[[]],0]',
  '[{"id":"\\u00e9\\n\\"\\\\","a":1,"a":2}]',
  '[ \n{"id" : "🏠é" ,\t"x":[{},[],""]} , -1 ]\r\n',
  '[1e400,1E-2,0,10,-0.0,123456789012345678901234567890]',
  '["\\ud83c\\udfe0","\u2028","/\\/\\b\\f"]',
  JSON.stringify([VALID_RECORD]),
  JSON.stringify(
    [1, 2, 3].map((port) => ({ ...VALID_RECORD, port })),
    null,
    1,
  ),
];

/** Enough records that most of them are read at once. */
const RUNS = [
  ...SEEDS.slice(-1),
  JSON.stringify(
    ['é', '🏠\u2028', '\\"', 'a', '[{'].map((notes) => ({ ...VALID_RECORD, notes, x: [{}, {}] })),
  ),
];

const CHARACTERS = Array.from(
  '[]{}:,"\'\\/ \n\r\t0123456789-+.eEtfnuNI#\u0000\u007f\u00a0\uFEFF🏠',
);
const WORDS =
  'true false null "" \\u \\ud800 {"a": [[ ]] // /* NaN 1. .5 01 +1 0x1 1e }{ ,, ,] :,'.split(' ');
const PIECES = [...CHARACTERS, ...WORDS];

/** A small generator of the same numbers everywhere (mulberry32). */
function generator(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

function* documents(
  count: number,
  random: (below: number) => number,
  seeds = SEEDS,
): Generator<string> {
  for (let made = 0; made < count; made += 1) {
    let text = seeds[random(seeds.length)] ?? '';
    for (let edits = random(4); edits > 0; edits -= 1) text = edit(text, random);
    // Text comes as UTF-8, which has whole characters only.
    yield text.toWellFormed();
  }
}

function edit(text: string, random: (below: number) => number): string {
  const from = random(text.length + 1);
  const to = Math.min(text.length, from + random(4));
  switch (random(4)) {
    case 0:
      return text.slice(0, from) + text.slice(to);
    case 1:
      return text.slice(0, to) + text.slice(from);
    case 2:
      return text.slice(0, from) + (PIECES[random(PIECES.length)] ?? '') + text.slice(to);
    default:
      return text.slice(0, from) + (PIECES[random(PIECES.length)] ?? '') + text.slice(from);
  }
}

/** What JSON.parse makes of a text: how many records it has; null for what is no array of JSON. */
function parsed(text: string): number | null {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) ? value.length : null;
  } catch {
    return null;
  }
}

const isRefusal = (code: string) =>
  /^(json|encoding|limit)\//.test(code) && code !== 'json/duplicate-key' && code !== 'encoding/bom';

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Whether a text is JSON, or the beginning of such a text, as far as JSON.parse says where it fails. */
function mayGoOn(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch (error) {
    assert.ok(error instanceof SyntaxError);
    const [, at] = /at position (\d+)/.exec(error.message) ?? [];
    return /Unexpected end|Unterminated string/.test(error.message) || Number(at) === text.length;
  }
}

/** The offset of a place, counted in the plainest way. */
function offsetOf(text: string, { line, column }: { line: number; column: number }): number {
  const lines = text.split('\n');
  const before = lines.slice(0, line - 1).join('').length + line - 1;
  const [...characters] = lines[line - 1] ?? '';
  return before + characters.slice(0, column - 1).join('').length;
}

/** What a message is about that begins at an offset: a word with what ends it, an escape, or one character. */
function subjectAt(text: string, offset: number): string {
  const [subject = ''] = /^(?:[\w$.+-]+[^]?|\\u?[^]{0,4}|[^])/u.exec(text.slice(offset)) ?? [];
  return subject;
}

test(`${DOCUMENTS} documents are taken and refused as JSON.parse takes and refuses them`, async () => {
  const tally = { taken: 0, refused: 0 };
  for (const text of documents(DOCUMENTS, generator(SEED))) {
    // A byte order mark at the beginning is passed over, where JSON.parse refuses it.
    const expected = parsed(text.replace(/^\uFEFF/, ''));
    const { findings, summary } = await validate(text);
    const isRoot = findings.some(({ pointer, recordIndex, code }) => {
      return code === 'schema/type' && pointer === '' && recordIndex === null;
    });
    const isTaken = !isRoot && !findings.some(({ code }) => isRefusal(code));
    tally[expected === null ? 'refused' : 'taken'] += 1;
    const shown = `seed ${SEED}: ${JSON.stringify(text)}`;
    assert.equal(isTaken, expected !== null, shown);
    const refusal = findings.findLast(({ code }) => code.startsWith('json/') && isRefusal(code));
    if (refusal !== undefined && refusal.code !== 'json/empty' && !text.startsWith('\uFEFF')) {
      // Up to the place all may still come well, and with what stands there it cannot.
      const at = offsetOf(text, refusal);
      assert.ok(mayGoOn(text.slice(0, at)), `${shown} ${refusal.message}`);
      const isEnd = refusal.code === 'json/truncated';
      if (isEnd) assert.ok(at === text.length, shown);
      else
        assert.ok(
          !mayGoOn(text.slice(0, at) + subjectAt(`${text}\n`, at)),
          `${shown} ${at} ${refusal.message}`,
        );
    }
    if (expected !== null) assert.equal(summary.records, expected, shown);
  }
  assert.ok(tally.taken > 20_000 && tally.refused > 20_000, JSON.stringify(tally));
});

test('each line is taken and refused as JSON.parse takes and refuses it', async () => {
  const tally = { taken: 0, refused: 0 };
  for (const text of documents(4_000, generator(SEED + 3))) {
    const lines = text
      .replace(/^\uFEFF/, '')
      .replaceAll('},', '}\n')
      .split('\n');
    const refused = lines.flatMap((line, index) => {
      if (/^[ \t\r]*$/.test(line)) return [];
      const isTaken = isJson(line);
      tally[isTaken ? 'taken' : 'refused'] += 1;
      return isTaken ? [] : [index + 1];
    });
    const { findings } = await validate(lines.join('\n'), { format: 'jsonl' });
    assert.deepEqual(
      findings.filter(({ code }) => isRefusal(code)).map(({ line }) => line),
      refused,
      `seed ${SEED}: ${JSON.stringify(lines)}`,
    );
  }
  assert.ok(tally.taken > 1_000 && tally.refused > 1_000, JSON.stringify(tally));
});

test('many records at once are read as one by one, in documents and in lines', async () => {
  const tally = { valid: 0, invalid: 0 };
  for (const text of documents(1_000, generator(SEED + 2), RUNS)) {
    const inLines = text.replaceAll('},{', '}\n{').replace(/^\[|\]$/g, '');
    for (const [source, format] of [
      [text, 'json'],
      [inLines, 'jsonl'],
    ] as const) {
      const atOnce = await validate(source, { format });
      const oneByOne = await validate(source, { format, inspect: () => [] });
      assert.deepEqual(atOnce, oneByOne, `seed ${SEED}: ${JSON.stringify(source)}`);
      tally[atOnce.findings.length === 0 ? 'valid' : 'invalid'] += 1;
    }
  }
  assert.ok(tally.valid > 200 && tally.invalid > 200, JSON.stringify(tally));
});

test('where a document is cut into chunks changes nothing', async () => {
  for (const text of documents(400, generator(SEED + 1))) {
    const bytes = Buffer.from(text);
    const whole = withoutRest(await validate(bytes));
    const shown = `seed ${SEED}: ${JSON.stringify(text)}`;
    for (let end = 1; end < bytes.length; end += 1) {
      assert.deepEqual(withoutRest(await validate(inChunks(bytes, [end]))), whole, shown);
    }
  }
});
