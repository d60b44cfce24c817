import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { highlight } from '../../src/search/highlight.ts';
import { normaliseText } from '../../src/text.ts';

const mark = (text: string, query: string) =>
  highlight(text, new Set(normaliseText(query).split(' ')));

const cases: [string, string, string][] = [
  ['Продам квартиру в Києві', 'КИЄВІ', 'Продам квартиру в <mark>Києві</mark>'],
  ["об'єкт і об’єкт", 'обʼєкт', '<mark>об&#39;єкт</mark> і <mark>об’єкт</mark>'],
  ["'об’єкт'", 'обєкт', '&#39;<mark>об’єкт</mark>&#39;'],
  ['за\u0301мок, ЁЛКА', 'замок елка', '<mark>за\u0301мок</mark>, <mark>ЁЛКА</mark>'],
  ['квар\u00ADтира', 'квартира', '<mark>квар\u00ADтира</mark>'],
  ['Івано-Франківськ', 'івано франківськ', '<mark>Івано</mark>-<mark>Франківськ</mark>'],
  ['54,5 м²', '54.5 м2', '<mark>54</mark>,<mark>5</mark> <mark>м²</mark>'],
  [
    '<script>alert("x")</script>',
    'alert',
    '&#60;script&#62;<mark>alert</mark>(&#34;x&#34;)&#60;/script&#62;',
  ],
  [
    '&amp; <b>тепло</b>',
    'тепло b',
    '&#38;amp; &#60;<mark>b</mark>&#62;<mark>тепло</mark>&#60;/<mark>b</mark>&#62;',
  ],
  ['нічого такого', 'інше', 'нічого такого'],
  ['квартиранти', 'квартира', 'квартиранти'],
  ['', 'слово', ''],
];

for (const [text, query, expected] of cases) {
  test(`${JSON.stringify(query)} in ${JSON.stringify(text)}`, () => {
    assert.equal(mark(text, query), expected);
  });
}

test('a long text is cut between words around the place with the most words of the query', () => {
  const filler = 'дуже довгий опис оселі '.repeat(60);
  const html = mark(`${filler}балкон ${filler}новий балкон ${filler}`, 'балкон новий');
  assert.match(html, /^… .*<mark>новий<\/mark> <mark>балкон<\/mark>.*…$/);
  const plain = html.replaceAll(/<\/?mark>/g, '');
  assert.ok(plain.length < 300, `${plain.length} characters`);
  for (const word of plain.replaceAll('…', '').trim().split(' ')) {
    assert.ok(`${filler} новий балкон`.includes(word), word);
  }
});

test('a text of 50,000 found words takes a moment, not minutes', { timeout: 60_000 }, () => {
  assert.match(mark('а '.repeat(25_000), 'а'), /^(<mark>а<\/mark> )+/);
});

const anyText = fc.string({
  unit: fc.oneof(
    fc.constantFrom('<', '&', "'", '"', ' ', 'а', '😀', '\u0301'),
    fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
  ),
  maxLength: 600,
});

test('without the marks and the escapes a passage is a piece of the text, unescaped by nothing', () => {
  fc.assert(
    fc.property(anyText, fc.string({ unit: 'binary', maxLength: 20 }), (text, query) => {
      const html = mark(text, query).replaceAll(/<mark>|<\/mark>/g, '');
      assert.doesNotMatch(html, /[<>"']/);
      const plain = html.replaceAll(/&#(\d+);/g, (_, code) => String.fromCharCode(Number(code)));
      assert.ok(text.includes(plain.replace(/^…/, '').replace(/…$/, '')) || text.includes(plain));
    }),
    { numRuns: 1000 },
  );
});
