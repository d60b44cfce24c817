import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { plainPayload } from '../../src/ingest/payload.ts';
import { plainText } from '../../src/text.ts';

describe('HTML becomes text', () => {
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
    ['the end cut off', '<p>Продам квартиру</p><a hre', 'Продам квартиру'],
  ];
  for (const [name, html, text] of cases) test(name, () => assert.equal(plainText(html), text));
});

describe('other text stays', () => {
  for (const text of [
    'площа < 50 м²',
    'a<b',
    'якщо a<b і c>d, то <так>',
    'Пишіть <olena@example.com>, <Львів>',
    'AT&T, R&B; https://host.example/?a=1&copy=2&lt=3',
    'два\n\n  рядки',
    '<img src="plan.jpg">',
  ]) {
    test(text, () => assert.equal(plainText(text), text));
  }
});

test('texts of a payload are read, and all else stays as it came', () => {
  const payload = {
    source_slug: 'doshka',
    external_id: '<b>1</b>',
    url: 'https://host.example/?a=1&amp;b=2',
    description: 'Здам&nbsp;кімнату',
    title: '<b>2к</b> &amp; гараж',
    phones: ['<a href="tel:1">050&nbsp;123</a>'],
    attributes: { html: '<b>1</b>' },
  };
  assert.deepEqual(plainPayload(payload), {
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
    for (const begin of ['', '<p>Ціна</p>']) {
      const text = `${begin}${unit.repeat(LENGTH / unit.length)}`;
      assert.ok(plainText(text).length <= text.length);
    }
  });
}
