import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { findPlaces, getAncestor, getPlace, resolvePlaces } from '../../src/places/gazetteer.ts';
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

function resolve(city: string | null, district?: string, address?: string, text?: string): string {
  const [place, ...otherPlaces] = resolvePlaces({
    city,
    district: district ?? null,
    address: address ?? null,
    text: text ?? null,
  });
  return otherPlaces.length > 0 ? 'ambiguous' : (place?.names.uk ?? 'unknown');
}

test('A path has at most six places, which the index of filters requires', () => {
  const path = new URL('../../src/places/places.tsv', import.meta.url);
  for (const row of readFileSync(path, 'utf8').trimEnd().split('\n').slice(1)) {
    const place = getPlace(Number(row.split('\t')[0]));
    assert.ok(place !== undefined && place.path.length <= 6, row);
  }
});

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
  assert.equal(resolve('Городок'), 'ambiguous');
  assert.equal(resolve(null, 'Шевченківський'), 'ambiguous');
  const [smallTown] = findPlaces('Миколаїв').toSorted((a, b) => b.latitude - a.latitude);
  assert.ok(smallTown !== undefined);
  for (const city of ['Миколаїв, Львівська область', 'Миколаїв (Львівська обл.)']) {
    assert.deepEqual(resolvePlaces({ city }), [smallTown]);
  }
  for (const text of [
    'у м. Миколаїв Львівської області',
    'Mykolaiv, Lviv oblast',
    'во Львовской области',
    'Львівщина!',
  ]) {
    assert.deepEqual(resolvePlaces({ city: 'Миколаїв', text }), [smallTown], text);
  }
  assert.equal(resolve('Николаев', 'Корабельний'), 'Корабельний');
  assert.equal(resolve('Київ', 'Шевченківський'), 'Шевченківський');
  assert.equal(resolve('Калинівка', 'Васильківський р-н'), 'Калинівка');
  assert.equal(resolve("П'ятихатки"), "П'ятихатки");
  assert.equal(resolve("Харків, П'ятихатки"), "П'ятихатки");
  assert.equal(resolve('Київ', undefined, 'вул. Одеська 5'), 'Київ');
  assert.equal(resolve('Київ', 'Подільський район'), 'Подільський');
  assert.equal(resolve('Дніпровський р-н, м. Київ'), 'Дніпровський');
  assert.equal(resolve('Тернопіль', 'Сонячний'), 'Сонячний');
  assert.equal(resolve('Сонячний, Тернопіль'), 'Сонячний');
  for (const city of ['Київ, Київська область, Україна', 'Київська обл., м. Київ']) {
    assert.equal(resolve(city), 'Київ', city);
  }
  assert.equal(resolve('Київська область', 'Бучанський район', 'м. Ірпінь'), 'Ірпінь');
});

test('A much larger city is meant if nothing else decides', () => {
  const [place] = resolvePlaces({ city: 'Николаев', address: 'пр. Мира 46' });
  assert.equal(place && getAncestor(place, 'region')?.names.uk, 'Миколаївська область');
  assert.equal(resolvePlaces({ city: 'Миколаїв' }).length, 1);
  assert.equal(resolve('Калинівка'), 'ambiguous');
});

test('A district that the city does not have leaves the city as it is', () => {
  assert.equal(resolve('Полтава', 'Троєщина'), 'Полтава');
  assert.equal(resolve('Полтава', 'Вигадане'), 'Полтава');
  assert.equal(resolve('Львів, Сокільники'), 'Львів');
  assert.equal(resolve('Полтава', undefined, 'Київ, вул. Зелена 1'), 'Полтава');
});

test('A village does not resolve to a district of its name in another city', () => {
  for (const city of ['Petrivka', 'Лески']) assert.equal(resolve(city), 'ambiguous', city);
  assert.equal(resolve('Троєщина, Одеська область'), 'Одеська область');
});

test('An unknown village is in its region', () => {
  for (const [city, address] of [
    ['с. Вигадане, Львівська обл.', undefined],
    ['Вигадане', 'Львівська область, вул. Зелена 5'],
  ] as const) {
    assert.equal(resolve(city, undefined, address), 'Львівська область', city);
  }
});

test('A small place is another one of its name if the text names another region', () => {
  const resolveIn = (text: string) => resolve('Ходосівка', undefined, undefined, text);
  assert.equal(resolveIn('Ділянка біля Києва'), 'Ходосівка');
  assert.equal(resolveIn('Київська обл., с. Ходосівка'), 'Ходосівка');
  assert.equal(resolveIn('Полтавщина, с. Ходосівка'), 'unknown');
  assert.equal(resolve('Львів', undefined, undefined, 'Полтавська область'), 'Львів');
});

test('A district without a city resolves, and unknown names do not', () => {
  assert.equal(resolve(null, 'Троєщина'), 'Троєщина');
  assert.equal(resolve(null, 'на Салтовке'), 'Салтівка');
  for (const name of ['центр', 'Лівий берег', 'Острів', 'Сонячний', 'Богунія']) {
    assert.equal(resolve(null, name), 'unknown', name);
  }
  assert.equal(resolve('Kyiv', 'Pozniaky'), 'Позняки');
  assert.equal(resolve('Дніпро', 'район Тополя-2'), 'Тополя');
  assert.equal(resolve('Запоріжжя', 'на Бабурці'), 'Бабурка');
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
