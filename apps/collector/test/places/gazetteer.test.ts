import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { findPlaces, resolvePlace } from '../../src/places/gazetteer.ts';
import { inflect } from '../../src/places/inflection.ts';

test('Each row of the table has a known kind, and its parent above it', () => {
  const path = new URL('../../src/places/places.tsv', import.meta.url);
  const ids = new Set(['']);
  for (const row of readFileSync(path, 'utf8').trimEnd().split('\n').slice(1)) {
    const [id = '', kind = '', parent = ''] = row.split('\t');
    assert.match(kind, /^(country|region|raion|city|district)$/, row);
    assert.ok(!ids.has(id) && ids.has(parent), row);
    ids.add(id);
  }
});

function resolve(city: string | null, district?: string, address?: string): string {
  const { place, isAmbiguous } = resolvePlace({
    city,
    district: district ?? null,
    address: address ?? null,
  });
  return isAmbiguous ? 'ambiguous' : (place?.names.uk ?? 'unknown');
}

test('Names in other languages, cases and spellings resolve to one place', () => {
  const spellings = {
    Київ: [
      'Київ',
      'КИЇВ',
      'Киев',
      'Киеве',
      'у Києві',
      'м. Київ',
      'г. Киев',
      'Kyiv',
      'Kiev',
      'Kyjiv',
    ],
    Львів: ['Львів', 'Львові', 'Львов', 'во Львове', 'Lviv', 'Lvov', 'Lwów'],
    Дніпро: ['Дніпро', 'Дніпрі', 'Днепр', 'Днепропетровск', 'Dnipro'],
    Кропивницький: ['Кропивницькому', 'Кировоград', 'Kropyvnytskyi'],
    Запоріжжя: ['Запоріжжі', 'Запорожье', 'Zaporozhye'],
    'Біла Церква': ['Білій Церкві', 'Белой Церкви', 'Bila Tserkva'],
    'Кривий Ріг': ['Кривому Розі', 'Кривом Роге', 'Kryvyi Rih'],
    Варшава: ['Варшаві', 'Варшаве', 'Warszawa', 'Warsaw'],
    'Київська область': ['Київська область', 'Киевская обл.', 'Київщина', 'Kyiv Oblast'],
  };
  for (const [name, texts] of Object.entries(spellings)) {
    for (const text of texts) assert.equal(resolve(text), name, text);
  }
});

test('A region, district or parent decides between places of one name', () => {
  assert.equal(resolve('Миколаїв'), 'ambiguous');
  assert.equal(resolve('Городок'), 'ambiguous');
  assert.equal(resolve(null, 'Шевченківський'), 'ambiguous');
  const [smallTown] = findPlaces('Миколаїв').toSorted((a, b) => b.latitude - a.latitude);
  for (const text of ['Миколаїв, Львівська область', 'Миколаїв (Львівська обл.)']) {
    assert.deepEqual(resolvePlace({ city: text }).place, smallTown);
  }
  assert.equal(resolve('Николаев', 'Корабельний'), 'Корабельний');
  assert.equal(resolve('Київ', 'Шевченківський'), 'Шевченківський');
  assert.equal(resolve("П'ятихатки"), "П'ятихатки");
  assert.equal(resolve('Київ', undefined, 'вул. Одеська 5'), 'Київ');
});

test('A district without a city resolves, and unknown names do not', () => {
  assert.equal(resolve(null, 'Троєщина'), 'Троєщина');
  assert.equal(resolve('Kyiv', 'Pozniaky'), 'Позняки');
  for (const text of ['', '   ', 'Лондон', '12345', '…']) assert.equal(resolve(text), 'unknown');
});

test('Names with vowel alternation are inflected', () => {
  for (const [name, language, form] of [
    ['тернопіль', 'uk', 'тернополі'],
    ['ірпінь', 'uk', 'ірпені'],
    ['чернівці', 'uk', 'чернівцях'],
    ['трускавець', 'uk', 'трускавці'],
    ['нова каховка', 'uk', 'новій каховці'],
    ['черкассы', 'ru', 'черкассах'],
    ['каменец подольский', 'ru', 'каменце подольском'],
  ] as const) {
    assert.ok(inflect(name, language).has(form), form);
  }
});
