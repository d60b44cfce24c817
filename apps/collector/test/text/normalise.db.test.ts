import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { openTestDatabase } from '@oselya/db/testing';
import { normaliseText } from '../../src/text.ts';

const { pool } = await openTestDatabase();

async function finds(pairs: readonly (readonly [document: string, query: string])[]) {
  const documents = pairs.map(([document]) => normaliseText(document));
  const queries = pairs.map(([, query]) => normaliseText(query));
  const { rows } = await pool.query<{ found: boolean }>(
    `select to_tsvector('simple', document) @@ plainto_tsquery('simple', query) as found
     from unnest($1::text[], $2::text[]) with ordinality as pair (document, query, place)
     order by place`,
    [documents, queries],
  );
  return rows.map(({ found }) => found);
}

const groups: string[][] = [
  ["п'ять", 'п’ять', 'пʼять', 'П‘ЯТЬ', 'п`ять', 'п´ять', 'п＇ять', 'п′ять', "'пʼять'"],
  [
    'івано-франківськ',
    'Івано‑Франківськ',
    'івано–франківськ',
    'ІВАНО ФРАНКІВСЬК',
    'івано-\u00ADфранківськ',
  ],
  ['2-к', '2–к', '2 К', '2\u2011к', '(2-к)', '2−к'],
  ['ёлка', 'елка', 'е\u0308лка', 'ЁЛКА', 'ё\u0301лка'],
  ['за\u0301мок', 'замок', 'за\u0300мок', 'за\u00ADмок', 'зам\u200Bок'],
  ['йод', 'и\u0306од', 'ЙОД'],
  ['їжак', 'і\u0308жак', 'ЇЖАК'],
  ['54,5 м²', '54.5 м2', '54.5 М²'],
  ['вул.Хрещатик,1/2', 'вул Хрещатик 1 2', 'вул. хрещатик 1/2'],
  ['кухня/їдальня', 'кухня, їдальня', 'кухня-їдальня'],
  ['лист@oselya.example', 'лист oselya example'],
];

for (const group of groups) {
  test(`each way to write ${group[0]} finds each other`, async () => {
    const pairs = group.flatMap((document) => group.map((query) => [document, query] as const));
    const found = await finds(pairs);
    const missed = pairs.filter((_, index) => found[index] !== true);
    assert.deepEqual(missed, []);
  });
}

test('й and ї are letters of their own', async () => {
  const pairs = [
    ['йод', 'иод'],
    ['їжак', 'іжак'],
    ['ґрати', 'грати'],
  ] as const;
  assert.deepEqual(await finds(pairs), [false, false, false]);
});

const decorated = fc
  .array(fc.constantFrom(...Array.from('абвіїйґеёчщ')), { minLength: 1, maxLength: 8 })
  .chain((letters) =>
    fc.tuple(
      fc.constant(letters.join('')),
      fc
        .array(fc.constantFrom('', '\u0301', '\u00AD', '\u200B', '\uFEFF'), {
          minLength: letters.length,
          maxLength: letters.length,
        })
        .map((marks) => letters.map((letter, index) => letter + marks[index]).join('')),
    ),
  );

test('whatever is typed into a word, the word is found', async () => {
  const pairs = fc
    .sample(fc.tuple(decorated, decorated, fc.constantFrom("'", '’', 'ʼ', '-', '‑', '–')), 500)
    .map(
      ([left, right, joint]) =>
        [
          left[1].toUpperCase() + joint + right[1],
          joint === "'" || joint === '’' || joint === 'ʼ'
            ? left[0] + right[0]
            : `${left[0]} ${right[0]}`,
        ] as const,
    );
  const found = await finds(pairs);
  assert.deepEqual(
    pairs.filter((_, index) => found[index] !== true),
    [],
  );
});

test('any text finds itself', async () => {
  const texts = fc
    .sample(fc.string({ unit: 'binary', maxLength: 40 }), 500)
    .filter((text) => normaliseText(text) !== '');
  const { rows } = await pool.query<{ text: string }>(
    `select text from unnest($1::text[]) as text
     where numnode(plainto_tsquery('simple', text)) > 0
       and not to_tsvector('simple', text) @@ plainto_tsquery('simple', text)`,
    [texts.map(normaliseText)],
  );
  assert.deepEqual(rows, []);
});
