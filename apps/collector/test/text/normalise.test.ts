import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { normaliseText, spellAlike } from '../../src/text.ts';

const apostrophes = ["'", '’', 'ʼ', '‘', '`', '´', '＇', '′', 'ʹ'];
const hyphens = ['-', '‐', '‑', '‒', '–', '—', '−', '﹣', '－'];
const unseen = ['\u00AD', '\u200B', '\u200C', '\u200D', '\u2060', '\uFEFF', '\uFE0F'];

const cases: [string, string][] = [
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

for (const [text, expected] of cases) {
  test(`${JSON.stringify(text)} is ${JSON.stringify(expected)}`, () => {
    assert.equal(normaliseText(text), expected);
  });
}

const anyText = fc.string({ unit: 'binary', maxLength: 60 });
const letters = fc.string({
  unit: fc.constantFrom(...Array.from('абвгґдеєжзиіїйклмнопрстуфхцчшщьюяыэъabcxyz')),
  minLength: 1,
  maxLength: 8,
});

function property<T>(arbitrary: fc.Arbitrary<T>, check: (value: T) => void): void {
  fc.assert(fc.property(arbitrary, check), { numRuns: 2000 });
}

test('normalised text stays as it is', () => {
  property(anyText, (text) => {
    const once = normaliseText(text);
    assert.equal(normaliseText(once), once);
  });
});

test('normalised text is words of letters and digits with one space between', () => {
  property(anyText, (text) => {
    assert.match(normaliseText(text), /^(?:[\p{L}\p{Nd}]+(?: [\p{L}\p{Nd}]+)*)?$/u);
  });
});

test('text at most triples', () => {
  property(anyText, (text) => assert.ok(normaliseText(text).length <= 3 * text.length));
});

test('canonically equal texts are one', () => {
  property(anyText, (text) => {
    assert.equal(normaliseText(text.normalize('NFD')), normaliseText(text.normalize('NFC')));
  });
});

test('every apostrophe joins, every hyphen separates', () => {
  property(fc.tuple(letters, letters), ([left, right]) => {
    for (const apostrophe of apostrophes) {
      assert.equal(normaliseText(left + apostrophe + right), left + right);
    }
    for (const hyphen of hyphens) {
      assert.equal(normaliseText(left + hyphen + right), `${left} ${right}`);
    }
  });
});

test('case, stress and unseen characters change nothing', () => {
  const decoration = fc.constantFrom('', '\u0300', '\u0301', ...unseen);
  property(fc.array(fc.tuple(letters, decoration), { maxLength: 5 }), (parts) => {
    const plain = parts.map(([word]) => word).join('');
    const decorated = parts.map(([word, mark]) => word.toUpperCase() + mark).join('');
    assert.equal(normaliseText(decorated), plain);
  });
});

const spellings: [string, string][] = [
  ['Жилой  ДОМ', 'жилой дом'],
  ['жило\u0438\u0306 дом', 'жилой дом'],
  ['об’єкт, ОБʼЄКТ, об`єкт', "об'єкт, об'єкт, об'єкт"],
  ['дом–дача, дом\u2011дача, дом−дача', 'дом-дача, дом-дача, дом-дача'],
  ['жильё ЖИЛЬЕ\u0308', 'жилье жилье'],
  ['за\u0301мок', 'замок'],
  ['та\u00ADун\u200Bхаус', 'таунхаус'],
  ['1/2 дома\u00A0(кв.)', '1/2 дома (кв.)'],
  ['Poko\u0301j, pokój', 'pokój, pokój'],
  ['її', 'її'],
  ['\u00AD ', ''],
];

for (const [text, expected] of spellings) {
  test(`${JSON.stringify(text)} is spelled ${JSON.stringify(expected)}`, () => {
    assert.equal(spellAlike(text), expected);
  });
}

test('what is spelled alike stays so, and has the words that it had', () => {
  property(anyText, (text) => {
    const once = spellAlike(text);
    assert.equal(spellAlike(once), once);
    assert.equal(spellAlike(text.normalize('NFD')), spellAlike(text.normalize('NFC')));
    assert.equal(normaliseText(once), normaliseText(text));
  });
});

test('every apostrophe, every hyphen and what is not seen make no other spelling', () => {
  property(fc.tuple(letters, letters), ([left, right]) => {
    for (const one of apostrophes) {
      assert.equal(spellAlike(left + one + right), spellAlike(`${left}'${right}`));
    }
    for (const one of hyphens) {
      assert.equal(spellAlike(left + one + right), spellAlike(`${left}-${right}`));
    }
    for (const one of unseen) assert.equal(spellAlike(left + one + right), left + right);
  });
});
