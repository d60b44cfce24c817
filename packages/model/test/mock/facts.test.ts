import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readAddress } from '../../src/mock/address.ts';
import { readAreas, readLandArea } from '../../src/mock/areas.ts';
import { readContactName } from '../../src/mock/contact.ts';
import { FEATURE_SLUGS, readFeatures } from '../../src/mock/features.ts';
import { readFloors, readYearBuilt } from '../../src/mock/floors.ts';
import { clean } from '../../src/mock/fold.ts';
import { readText } from '../../src/mock/listing-text.ts';
import { readPhones, withoutPhones } from '../../src/mock/phones.ts';
import { canonicalCity, readPlace } from '../../src/mock/places.ts';
import { readRooms } from '../../src/mock/rooms.ts';

const folded = (text: string): string => readText('', text).folded;

describe('rooms', () => {
  const cases: [string, number | null][] = [
    ['2-к кв', 2],
    ['3х комн', 3],
    ['3-х кімнатна', 3],
    ['двушка', 2],
    ['однушку', 1],
    ['трёшка', 3],
    ['2BR', 2],
    ['studio', 1],
    ['кухня-студія 20 м²', null],
    ['кімнат: 4', 4],
    ['1кк', 1],
    ['85к$', null],
    ['5 поверх', null],
  ];
  for (const [text, rooms] of cases) {
    test(`${text} → ${rooms}`, () => assert.equal(readRooms(folded(text)), rooms));
  }
});

describe('year built', () => {
  const cases: [string, number | null][] = [
    ['House, built in 1998, renovated in 2019', 1998],
    ['Year built: 2007', 2007],
    ['цегляний будинок 1985 р.п.', 1985],
    ['Рік побудови — 2015', 2015],
    ['квартира в доме 2010 года, 4 этаж', 2010],
    ['дом 1972 г. постройки', 1972],
    ['Будинок зведено у 2021 році', 2021],
    ['Договір 2025 року', null],
    ['Ціна 2000 $', null],
  ];
  for (const [text, year] of cases) {
    test(`${text} → ${year}`, () => assert.equal(readYearBuilt(folded(text)), year));
  }
});

describe('areas', () => {
  const cases: [string, number | null, number | null, number | null][] = [
    ['60/40/9', 60, 40, 9],
    ['61,7 / 32,1 / 14,2 кв.м', 61.7, 32.1, 14.2],
    ['12/05/2024', null, null, null],
    ['60 кв. м, кухня 9 м', 60, null, 9],
    ['загальна площа 60, житлова 40, кухня 9', 60, 40, 9],
    ['кухня 9 м², загальна 60 м²', 60, null, 9],
    ['600 sq ft', 55.7, null, null],
    ['200 м до метро', null, null, null],
    ['950 $ за 1 м2', null, null, null],
  ];
  for (const [text, total, living, kitchen] of cases) {
    test(`${text} → ${total}/${living}/${kitchen}`, () => {
      assert.deepEqual(readAreas(folded(text), 'apartment'), { total, living, kitchen });
    });
  }
  test('of land are told in hundredths, hectares, acres and square metres', () => {
    assert.equal(readLandArea(folded('ділянка 6,5 соток')), 650);
    assert.equal(readLandArea(folded('0,12 га')), 1_200);
    assert.equal(readLandArea(folded('a plot of 2 acres')), 8_093.72);
    assert.equal(readLandArea(folded('ділянка 800 м2')), 800);
    assert.equal(readLandArea(folded('рівна ділянка')), null);
  });
});

describe('floors', () => {
  const cases: [string, number | null, number | null][] = [
    ['5/9 эт.', 5, 9],
    ['пов. 5 з 9', 5, 9],
    ["на п'ятому поверсі", 5, null],
    ['5th floor of 9', 5, 9],
    ['5-й поверх 9-поверхового', 5, 9],
    ['этаж 5, этажность 9', 5, 9],
    ['останній поверх 9-поверхового', 9, 9],
    ['ground floor', 1, null],
    ['24/7', null, null],
    ['вул. Соборна 5/9', null, null],
    ['60/40/9', null, null],
    ['9/5 поверх', 5, null],
  ];
  for (const [text, floor, total] of cases) {
    test(`${text} → ${floor}/${total}`, () => {
      assert.deepEqual(readFloors(folded(text), 'apartment'), { floor, total });
    });
  }
  test('of a house are counted, not chosen', () => {
    assert.deepEqual(readFloors(folded('двоповерховий будинок'), 'house'), {
      floor: null,
      total: 2,
    });
  });
});

describe('places', () => {
  const cases: [string, string | null, string | null][] = [
    ['у Львові', 'Львів', null],
    ['в Киеве на Оболони', 'Київ', 'Оболонь'],
    ['Odessa, Arcadia', 'Одеса', 'Аркадія'],
    ['на Сихові', 'Львів', 'Сихів'],
    ['вул. Київська, Львів', 'Львів', null],
    ['с. Гатне, 5 км від Києва', 'Гатне', null],
    ['Черкаська область, м. Золотоноша', 'Золотоноша', null],
    ['чи суми вистачить', null, null],
    ['у Сумах', 'Суми', null],
    ['ровно 10 минут', null, null],
    ['Ділянка, с. Годовиця\nРівна ділянка', 'Годовиця', null],
    ['Дом, м. Золотоноша\nДва поверхи', 'Золотоноша', null],
  ];
  for (const [text, city, district] of cases) {
    test(`${text} → ${city}, ${district}`, () => {
      assert.deepEqual(readPlace(clean(text, 500), folded(text), null), { city, district });
    });
  }
  test('written in any of the languages have one name', () => {
    for (const name of ['Lviv', 'Львов', 'м. Львів', 'ЛЬВІВ', 'Львив']) {
      assert.equal(canonicalCity(name), 'Львів');
    }
    assert.equal(canonicalCity('смт Славське'), 'Славське');
  });
});

describe('addresses, names and phones', () => {
  const addresses: [string, string | null][] = [
    ['вул. Івана Франка, 12а, другий поверх', 'вул. Івана Франка, 12а'],
    ['просп. Свободи 5/3', 'просп. Свободи 5/3'],
    ['ул. Пушкинская 37.', 'ул. Пушкинская 37'],
    ['ул. Бальзака, 8/16, 70/42/9', 'ул. Бальзака'],
    ['12 Halytska Street, 2nd floor', '12 Halytska Street'],
    ['затишна вулиця', null],
    ['біля парку', null],
  ];
  for (const [text, address] of addresses) {
    test(`${text} → ${address}`, () => assert.equal(readAddress(clean(text, 500)), address));
  }

  const names: [string, string | null][] = [
    ['тел. 000 123 45 67 Ірина', 'Ірина'],
    ['Контактна особа: Олег Петренко', 'Олег Петренко'],
    ['Хозяйка Мария, звоните', 'Мария'],
    ['call Andrew: +380 00 555 66 77', 'Andrew'],
    ['Телефонуйте Ціна договірна', null],
    ['здам квартиру', null],
  ];
  for (const [text, name] of names) {
    test(`${text} → ${name}`, () => assert.equal(readContactName(withoutPhones(text)), name));
  }

  const phones: [string, string[]][] = [
    ['+38 (000) 222-33-44', ['+380002223344']],
    ['000 123 45 67, 000-123-45-67', ['+380001234567']],
    ['80001234567', ['+380001234567']],
    ['+48 000 000 000', ['+48000000000']],
    ['85000 грн, 120 м2', []],
    ['ціна 12000 0001234567', ['+380001234567']],
  ];
  for (const [text, found] of phones) {
    test(`${text} → ${found.join(', ')}`, () => assert.deepEqual(readPhones(text), found));
  }
});

describe('features', () => {
  const cases: [string, string[]][] = [
    ['балкон, меблі, ліфт', ['balcony', 'elevator', 'furnished']],
    ['без балкона, ліфта немає', []],
    ['без ремонта', ['needs_renovation']],
    ['без комісії', ['no_commission']],
    ['можна з тваринами', ['pets_allowed']],
    ['с животными нельзя', ['no_pets']],
    ['pets welcome, no agency fee', ['no_commission', 'pets_allowed']],
    ['unfurnished, autonomous heating', ['autonomous_heating']],
  ];
  for (const [text, features] of cases) {
    test(`${text} → ${features.join(', ')}`, () => {
      assert.deepEqual(readFeatures(folded(text)), features);
    });
  }
  test('are slugs out of a sorted list without repeats', () => {
    assert.deepEqual(FEATURE_SLUGS, [...new Set(FEATURE_SLUGS)].toSorted());
    assert.ok(FEATURE_SLUGS.every((slug) => /^[a-z]+(?:_[a-z]+)*$/u.test(slug)));
  });
});
