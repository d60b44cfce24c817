import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { truncateText, toStorableMessage, normalizeText, toPlainText } from '../src/text.ts';
import { toPlainPayload } from '../src/ingest/payload.ts';
import { highlight } from '../src/search/highlight.ts';

test('Truncation never splits a character', () => {
  assert.equal(truncateText('аб🏠в', 3), 'аб');
  assert.equal(truncateText('аб🏠в', 4), 'аб🏠');
  assert.equal(truncateText('аб🏠в', 5), 'аб🏠в');
  assert.equal(truncateText('аб', 5), 'аб');
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.nat({ max: 20 }), (text, maxLength) => {
      const truncatedText = truncateText(text, maxLength);
      assert.ok(text.startsWith(truncatedText) && truncatedText.isWellFormed());
      assert.ok(truncatedText.length <= maxLength);
      assert.ok(truncatedText.length >= Math.min(text.length, maxLength) - 1);
    }),
  );
});

test('A message is stored up to its maximum length without invalid characters', () => {
  assert.equal(toStorableMessage(' a\0b\uD800 '), 'ab\uFFFD');
  assert.equal(toStorableMessage(`${'x'.repeat(999)}🏠`), 'x'.repeat(999));
});

const apostrophes = ["'", '’', 'ʼ', '‘', '`', '´', '＇', '′', 'ʹ'];
const hyphens = ['-', '‐', '‑', '‒', '–', '—', '−', '﹣', '－'];
const invisibleCharacters = ['\u00AD', '\u200B', '\u200C', '\u200D', '\u2060', '\uFEFF', '\uFE0F'];

const normalizationCases: [string, string][] = [
  ['', ''],
  [' \t\n ', ''],
  ['?!…«»—', ''],
  ['КВАРТИРА  у\u00A0Києві', 'квартира у києві'],
  ["П'ЯТЬ об’єктів, сімʼя", 'пять обєктів сімя'],
  ["'слово' ʼслово’", 'слово слово'],
  ["rock'n'roll", 'rocknroll'],
  ['ёлка ЁЛКА е\u0308лка', 'елка елка елка'],
  ['за\u0301мок і замо\u0301к, ѐ ѝ', 'замок і замок е и'],
  ['їжак Її йод йо\u0301д', 'їжак її йод йод'],
  ['и\u0306од і\u0308жак', 'йод їжак'],
  ['Івано-Франківськ', 'івано франківськ'],
  ['2-к, 2–к 2\u2011к', '2 к 2 к 2 к'],
  ['54.5 м² і 54,5 м2', '54 5 м2 і 54 5 м2'],
  ['вул.Хрещатик,1/2', 'вул хрещатик 1 2'],
  ['квар\u00ADти\u200Bра', 'квартира'],
  ['İSTANBUL', 'istanbul'],
  ['ґанок ҐАНОК єдність', 'ґанок ґанок єдність'],
  ['a\u0000b', 'a b'],
];

test('Normalized text has lower-case words of letters and digits', () => {
  for (const [text, expected] of normalizationCases) assert.equal(normalizeText(text), expected);
});

const arbitraryText = fc.string({ unit: 'binary', maxLength: 60 });
const arbitraryWord = fc.string({
  unit: fc.constantFrom(...Array.from('абвгґдеєжзиіїйклмнопрстуфхцчшщьюяыэъabcxyz')),
  minLength: 1,
  maxLength: 8,
});

function checkProperty<T>(arbitrary: fc.Arbitrary<T>, check: (value: T) => void): void {
  fc.assert(fc.property(arbitrary, check), { numRuns: 2000 });
}

test('Normalized text has single spaces and is stable', () => {
  checkProperty(arbitraryText, (text) => {
    const normalizedText = normalizeText(text);
    assert.match(normalizedText, /^(?:[\p{L}\p{Nd}]+(?: [\p{L}\p{Nd}]+)*)?$/u);
    assert.equal(normalizeText(normalizedText), normalizedText);
    assert.equal(normalizeText(text.normalize('NFD')), normalizeText(text.normalize('NFC')));
    assert.ok(normalizedText.length <= 3 * text.length);
  });
});

test('Apostrophes join words, and hyphens separate them', () => {
  checkProperty(fc.tuple(arbitraryWord, arbitraryWord), ([left, right]) => {
    for (const apostrophe of apostrophes) {
      assert.equal(normalizeText(left + apostrophe + right), left + right);
    }
    for (const hyphen of hyphens) {
      assert.equal(normalizeText(left + hyphen + right), `${left} ${right}`);
    }
  });
});

test('Case, stress marks and invisible characters do not matter', () => {
  const decoration = fc.constantFrom('', '\u0300', '\u0301', ...invisibleCharacters);
  checkProperty(fc.array(fc.tuple(arbitraryWord, decoration), { maxLength: 5 }), (parts) => {
    const plainText = parts.map(([word]) => word).join('');
    const decoratedText = parts.map(([word, mark]) => word.toUpperCase() + mark).join('');
    assert.equal(normalizeText(decoratedText), plainText);
  });
});

test('HTML becomes text', () => {
  const cases: [name: string, html: string, text: string][] = [
    ['entities', '49&nbsp;900&nbsp;$ &#1090;&#x43e;&#1088;г', '49\u00A0900\u00A0$ торг'],
    ['a list', '<ul class="x"><li>2 кімнати</li><li>54 м²</ul>Ціна', '2 кімнати\n54 м²\nЦіна'],
    ['line breaks', 'Поверх 3<br>Площа 54<BR/>Ціна', 'Поверх 3\nПлоща 54\nЦіна'],
    ['paragraphs', '<p>Продам\r\n  квартиру</p>\n\n<p>Торг</p>', 'Продам\nквартиру\nТорг'],
    [
      'a table',
      '<table><tr><td>Поверх</td><td>3</td></tr><tr><td>Площа</td></table>',
      'Поверх 3\nПлоща',
    ],
    ['words within a line', 'Про<b>дам</b> 54 м<sup>2</sup>', 'Продам 54 м2'],
    ['scripts and styles', '<style>p{}</style><p>Так</p><script>if (a<b) x()</script>', 'Так'],
    ['comments', '<!-- ціна 1 -->Ціна 2', 'Ціна 2'],
    ['comparisons', '<p>Площа < 50 м², ціна <50 000</p>', 'Площа < 50 м², ціна <50 000'],
    ['escaped tags', '&lt;p&gt;49&amp;nbsp;900&lt;br /&gt;Торг&lt;/p&gt;', '49 900\nТорг'],
    ['attributes', `<a href="/x?a=1&amp;b=2" title='a' hidden>Фото</a>`, 'Фото'],
    ['a truncated end', '<p>Продам квартиру</p><a hre', 'Продам квартиру'],
  ];
  for (const [name, html, text] of cases) assert.equal(toPlainText(html), text, name);
});

test('Other text is unchanged', () => {
  for (const text of [
    'площа < 50 м²',
    'a<b',
    'якщо a<b і c>d, то <так>',
    'Пишіть <olena@example.com>, <Львів>',
    'AT&T, R&B; https://host.example/?a=1&copy=2&lt=3',
    'два\n\n  рядки',
    '<img src="plan.jpg">',
  ]) {
    assert.equal(toPlainText(text), text);
  }
});

test('HTML in the texts of a payload becomes text, and other values are unchanged', () => {
  const payload = {
    source_slug: 'doshka',
    external_id: '<b>1</b>',
    url: 'https://host.example/?a=1&amp;b=2',
    description: 'Здам&nbsp;кімнату',
    title: '<b>2к</b> &amp; гараж',
    phones: ['<a href="tel:1">050&nbsp;123</a>'],
    attributes: { html: '<b>1</b>' },
  };
  assert.deepEqual(toPlainPayload(payload), {
    ...payload,
    description: 'Здам\u00A0кімнату',
    title: '2к & гараж',
    phones: ['050 123'],
  });
});

const LENGTH = 50_000;
for (const unit of [
  '<b>',
  '<p',
  '<b a="',
  `<b c=' x=" y='`,
  '<a a ',
  '</i>',
  '<div><b></p>',
  '&',
  '&nbsp',
  '<!--',
  '<svg><style>',
  '\n ',
]) {
  test(`${LENGTH} characters of ${JSON.stringify(unit)} are read to the end`, () => {
    for (const prefix of ['', '<p>Ціна</p>']) {
      const text = `${prefix}${unit.repeat(LENGTH / unit.length)}`;
      assert.ok(toPlainText(text).length <= text.length);
    }
  });
}

const highlightQuery = (text: string, query: string) =>
  highlight(text, new Set(normalizeText(query).split(' ')));

const htmlCases: [string, string, string][] = [
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

test('Matches are marked, and HTML is escaped', () => {
  for (const [text, query, expected] of htmlCases)
    assert.equal(highlightQuery(text, query), expected);
});

test('A passage of a long text has the most matches and is truncated between words', () => {
  const filler = 'дуже довгий опис оселі '.repeat(60);
  const html = highlightQuery(`${filler}балкон ${filler}новий балкон ${filler}`, 'балкон новий');
  assert.match(html, /^… .*<mark>новий<\/mark> <mark>балкон<\/mark>.*…$/);
  const plainText = html.replaceAll(/<\/?mark>/g, '');
  assert.ok(plainText.length < 300, `${plainText.length} characters`);
  for (const word of plainText.replaceAll('…', '').trim().split(' ')) {
    assert.ok(`${filler} новий балкон`.includes(word), word);
  }
});

const arbitraryPassage = fc.string({
  unit: fc.oneof(
    fc.constantFrom('<', '&', "'", '"', ' ', 'а', '😀', '\u0301'),
    fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
  ),
  maxLength: 600,
});

test('A passage without marks and escapes is a substring of the text', () => {
  fc.assert(
    fc.property(arbitraryPassage, fc.string({ unit: 'binary', maxLength: 20 }), (text, query) => {
      const html = highlightQuery(text, query).replaceAll(/<mark>|<\/mark>/g, '');
      assert.doesNotMatch(html, /[<>"']/);
      const plainText = html.replaceAll(/&#(\d+);/g, (_, code) =>
        String.fromCharCode(Number(code)),
      );
      assert.ok(
        text.includes(plainText.replace(/^…/, '').replace(/…$/, '')) || text.includes(plainText),
      );
    }),
    { numRuns: 1000 },
  );
});
