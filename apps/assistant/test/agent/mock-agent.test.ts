import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChatMessage, Reply } from '@oselya/model';
import { mockAgent } from '../../src/agent/mock/mock-agent.ts';

const ALL = [
  'search_listings',
  'similar_listings',
  'get_listing',
  'remember_fact',
  'forget_fact',
  'lookup_endpoint',
];
const SYSTEM = 'You help.\n\nWhat is remembered:\n- wishes/pets: кіт Мурчик\n- wishes/city: Львів';

const said = (content: string): ChatMessage => ({ role: 'user', content });

/** What the mock does when somebody says something, after other messages. */
function reply(text: string, { before = [] as ChatMessage[], tools = ALL } = {}): Reply {
  return mockAgent({ system: SYSTEM, messages: [...before, said(text)], tools });
}

/** The tool that it asks for, with its input. */
function callFor(text: string, before: ChatMessage[] = []) {
  const { toolCalls = [] } = reply(text, { before });
  assert.ok(toolCalls.length <= 1);
  return toolCalls.map(({ name, input }) => [name, input])[0];
}

/** What it says of what a tool told, asked in a language. */
function words(text: string, toolName: string, told: object): string {
  const call = { id: 'c', name: toolName, input: {} };
  const answer = mockAgent({
    system: SYSTEM,
    messages: [
      said('Добрий день'),
      { role: 'assistant', content: 'Добрий день.' },
      said(text),
      { role: 'assistant', content: '', toolCalls: [call] },
      { role: 'tool', toolCallId: 'c', toolName, content: JSON.stringify(told) },
    ],
    tools: ALL,
  });
  return answer.text ?? '';
}

const requests: readonly [string, string, object][] = [
  ['покажи схожі на 12', 'similar_listings', { listing_id: 12 }],
  ['похожие на объявление 12', 'similar_listings', { listing_id: 12 }],
  ['something like #12', 'similar_listings', { listing_id: 12 }],
  ['детальніше про 7', 'get_listing', { listing_id: 7 }],
  ['подробнее об объявлении 7', 'get_listing', { listing_id: 7 }],
  ['details of listing 7', 'get_listing', { listing_id: 7 }],
  [
    "запам'ятай, що живу у Львові",
    'remember_fact',
    { category: 'wishes', key: 'city', value: 'живу у Львові' },
  ],
  [
    'запомни: собака Рекс',
    'remember_fact',
    { category: 'wishes', key: 'собака', value: 'собака Рекс' },
  ],
  [
    'remember that parking matters',
    'remember_fact',
    { category: 'wishes', key: 'parking', value: 'parking matters' },
  ],
  ['забудь про кота Мурчика', 'forget_fact', { category: 'wishes', key: 'pets' }],
  ['forget about pets', 'forget_fact', { category: 'wishes', key: 'pets' }],
  ['which service is collector', 'lookup_endpoint', { words: 'which collector' }],
];

for (const [text, name, input] of requests) {
  test(`“${text}” is what ${name} is for`, () => {
    assert.deepEqual(callFor(text), [name, input]);
  });
}

/** A conversation in which a question was answered by a search. */
const searched = (text: string, input: object, found: object = {}): ChatMessage[] => [
  said(text),
  { role: 'assistant', content: '', toolCalls: [{ id: 'c', name: 'search_listings', input }] },
  {
    role: 'tool',
    toolCallId: 'c',
    toolName: 'search_listings',
    content: JSON.stringify(found),
  },
  { role: 'assistant', content: 'Ось.' },
];

const wishes = [
  'двокімнатна квартира у Львові до 15000 грн',
  'двухкомнатная квартира во Львове до 15000 грн',
  'two-room apartment in Lviv up to 15000 UAH',
];

for (const text of wishes) {
  test(`“${text}” is a search, and “cheaper” after it the same for less`, () => {
    const search = callFor(text);
    assert.partialDeepStrictEqual(search, [
      'search_listings',
      { query: text, city: 'Львів', rooms_min: 2, rooms_max: 2, price_max: 15_000 },
    ]);
    const input = search?.[1] as object;
    const before = searched(text, input);
    const less = ['search_listings', { ...input, price_max: 13_500 }];
    for (const word of ['дешевше', 'дешевле', 'cheaper']) {
      assert.deepEqual(callFor(word, before), less);
    }
  });
}

const ASKED = 'оренда двокімнатної квартири у Львові до 15000 грн';

const followUps: readonly [string, object][] = [
  ['а в Києві?', { city: 'Київ', price_max: 15_000, rooms_min: 2 }],
  ['а в Одессе?', { city: 'Одеса', price_max: 15_000, rooms_min: 2 }],
  ['до 20000 грн', { city: 'Львів', price_max: 20_000, rooms_min: 2 }],
  ['трикімнатні', { city: 'Львів', price_max: 15_000, rooms_min: 3, rooms_max: 3 }],
  ['дешевше, а в Києві?', { city: 'Київ', price_max: 13_500, rooms_min: 2 }],
];

for (const [text, kept] of followUps) {
  test(`“${text}” changes the search before it and keeps the rest`, () => {
    const before = searched(ASKED, callFor(ASKED)?.[1] as object);
    const [name, input] = callFor(text, before) ?? [];
    assert.equal(name, 'search_listings');
    assert.partialDeepStrictEqual(input, {
      ...kept,
      deal_type: 'rent',
      property_type: 'apartment',
    });
  });
}

test('a rent is no budget of a search for sale', () => {
  const before = searched(ASKED, callFor(ASKED)?.[1] as object);
  assert.deepEqual(callFor('а на продаж?', before)?.[1], {
    query: `${ASKED} а на продаж?`,
    deal_type: 'sale',
    property_type: 'apartment',
    city: 'Львів',
    rooms_min: 2,
    rooms_max: 2,
  });
});

test('a new wish, thanks and a search without a budget are no changes of the budget', () => {
  const before = searched(ASKED, callFor(ASKED)?.[1] as object);
  assert.deepEqual(callFor('будинок в Одесі', before)?.[1], {
    query: 'будинок в Одесі',
    property_type: 'house',
    city: 'Одеса',
  });
  assert.equal(callFor('дякую', before), undefined);
  const unlimited = searched(
    'квартира у Львові',
    { query: 'квартира', city: 'Львів' },
    {
      listings: [{ price: 12_000 }, { price: 10_000 }, {}],
    },
  );
  assert.deepEqual(callFor('дешевше', unlimited)?.[1], {
    query: 'квартира',
    city: 'Львів',
    price_max: 9_000,
  });
});

test('it says once in a conversation that it is the mock, in its language', () => {
  assert.match(reply('Привіт, як справи?').text ?? '', /пробна модель[^]*MODEL_MODE=openai/);
  assert.match(reply('Привет, что ты умеешь?').text ?? '', /пробная модель/);
  assert.match(reply('Hello, what can you do?').text ?? '', /mock model/);
  const later = reply('Привіт, як справи?', { before: searched(ASKED, {}) }).text ?? '';
  assert.doesNotMatch(later, /пробна модель/);
});

/** What it says where it asks for no tool. */
const help = (text: string, tools = ALL) => reply(text, { tools }).text ?? '';

test('what it cannot serve it answers with help, in the language of the question', () => {
  assert.match(help('Привіт, як справи?'), /^Напишіть, що шукаєте/);
  assert.match(help('Привет, что ты умеешь?'), /^Напишите, что ищете/);
  assert.match(help('Hello, what can you do?'), /^Say what you look for/);
  // A cheaper one than nothing is not there, and no tool is asked for that the profile has not.
  assert.match(help('дешевше'), /^Напишіть/);
  assert.match(help('детальніше про 7', ['search_listings']), /^Напишіть/);
  assert.match(help('забудь про басейн'), /^Про це нічого не запамʼятовано/);
});

const LISTING = {
  listing_id: 7,
  title: 'Flat',
  price: 13_500,
  currency: 'USD',
  rooms: 2,
  floor: '3/9',
};
const tellings: readonly [string, object, RegExp, RegExp, RegExp][] = [
  [
    'search_listings',
    { total: '4', listings: [LISTING] },
    /^Знайшлося 4, показую 1:\n1\. Flat — 13 500 USD, 2 кімн\., поверх 3\/9, #7$/,
    /^Нашлось 4, показываю 1:\n1\. Flat — 13 500 USD, 2 комн\., этаж 3\/9, #7$/,
    /^4 found, here are 1:\n1\. Flat — 13 500 USD, 2 rooms, floor 3\/9, #7$/,
  ],
  [
    'similar_listings',
    { listings: [] },
    /нічого не знайшлося/,
    /ничего не нашлось/,
    /^Nothing was/,
  ],
  [
    'get_listing',
    { ...LISTING, text: 'By the park.' },
    /^Ось що відомо[^]*, #7\nBy the park\.$/,
    /^Вот что известно[^]*, #7\nBy the park\.$/,
    /^This is what is known[^]*, #7\nBy the park\.$/,
  ],
  [
    'remember_fact',
    { remembered: { category: 'wishes', key: 'pets', value: 'кіт' } },
    /^Запамʼятовано: pets — кіт\.$/,
    /^Запомнено: pets — кіт\.$/,
    /^Remembered: pets — кіт\.$/,
  ],
  [
    'forget_fact',
    { forgotten: { category: 'wishes', key: 'pets', value: 'кіт' } },
    /^Забуто: pets — кіт\.$/,
    /^Забыто: pets — кіт\.$/,
    /^Forgotten: pets — кіт\.$/,
  ],
  [
    'lookup_endpoint',
    { endpoints: [{ id: 'http:forge', exposure: 'private', url: 'https://f.test/' }] },
    /^Ось що є в обліку:\n- http:forge \(private\) https:\/\/f\.test\/$/,
    /^Вот что есть в учёте:\n- http:forge/,
    /^This is what the inventory has:\n- http:forge/,
  ],
  ['get_listing', { error: 'no such' }, /^Не вдалося: no such\.$/, /^Не получилось/, /^It failed/],
];

for (const [name, told, ...expected] of tellings) {
  test(`what ${name} told is put into the words of the question's language: ${expected[0]}`, () => {
    const questions = [
      'Покажи, що там є',
      'Покажи, что там есть, пожалуйста',
      'Show me what there is',
    ];
    for (const [index, question] of questions.entries()) {
      assert.match(words(question, name, told), expected[index] ?? /^$/);
    }
  });
}
