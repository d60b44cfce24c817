import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChatMessage, Reply } from '@oselya/model';
import { mockAgent } from '../../src/conversations/agent/mock-agent.ts';
import { PROFILE_TOOLS } from '../../src/conversations/tools/tools.ts';

const SYSTEM = 'You help.\n\nWhat is remembered:\n- wishes/pets: кіт Мурчик\n- wishes/city: Львів';

const user = (content: string): ChatMessage => ({ role: 'user', content });

/** Returns the reply of the mock to a message, after other messages. */
function reply(text: string, { before = [] as ChatMessage[], tools = PROFILE_TOOLS } = {}): Reply {
  return mockAgent({ system: SYSTEM, messages: [...before, user(text)], tools: [...tools] });
}

/** Returns the call of a tool with its input. */
function callFor(text: string, before: ChatMessage[] = []) {
  const { toolCalls = [] } = reply(text, { before });
  assert.ok(toolCalls.length <= 1);
  return toolCalls.map(({ name, input }) => [name, input])[0];
}

const wish = (key: string, value: string) => ({ category: 'wishes', key, value });

test('each tool serves the messages that its rule describes', () => {
  for (const [text, name, input] of [
    ['покажи схожі на 12', 'similar_listings', { listing_id: 12 }],
    ['похожие на объявление 12', 'similar_listings', { listing_id: 12 }],
    ['something like #12', 'similar_listings', { listing_id: 12 }],
    ['детальніше про 7', 'get_listing', { listing_id: 7 }],
    ['подробнее об объявлении 7', 'get_listing', { listing_id: 7 }],
    ['details of listing 7', 'get_listing', { listing_id: 7 }],
    ["запам'ятай, що живу у Львові", 'remember_fact', wish('city', 'живу у Львові')],
    ['запомни: собака Рекс', 'remember_fact', wish('собака', 'собака Рекс')],
    ['remember that parking matters', 'remember_fact', wish('parking', 'parking matters')],
    ['забудь про кота Мурчика', 'forget_fact', { category: 'wishes', key: 'pets' }],
    ['forget about pets', 'forget_fact', { category: 'wishes', key: 'pets' }],
    ['which service is collector', 'lookup_endpoint', { words: 'which collector' }],
  ] as const) {
    assert.deepEqual(callFor(text), [name, input], text);
  }
});

/** Returns a conversation with a search. */
const searched = (text: string, input: unknown, found: object = {}): ChatMessage[] => [
  user(text),
  { role: 'assistant', content: '', toolCalls: [{ id: 'c', name: 'search_listings', input }] },
  { role: 'tool', toolCallId: 'c', toolName: 'search_listings', content: JSON.stringify(found) },
  { role: 'assistant', content: 'Ось.' },
];

test('a wish is a search, and "cheaper" after it the same search for less', () => {
  for (const text of [
    'двокімнатна квартира у Львові до 15000 грн',
    'двухкомнатная квартира во Львове до 15000 грн',
    'two-room apartment in Lviv up to 15000 UAH',
  ]) {
    const search = callFor(text);
    assert.partialDeepStrictEqual(search, [
      'search_listings',
      { query: text, city: 'Львів', rooms_min: 2, rooms_max: 2, price_max: 15_000 },
    ]);
    const input = search?.[1] as object;
    for (const word of ['дешевше', 'дешевле', 'cheaper']) {
      const less = ['search_listings', { ...input, price_max: 13_500 }];
      assert.deepEqual(callFor(word, searched(text, input)), less);
    }
  }
  const query = { query: 'квартира', city: 'Львів' };
  const found = { listings: [{ price: 12_000 }, { price: 10_000 }, {}] };
  const unlimited = searched('квартира у Львові', query, found);
  assert.deepEqual(callFor('дешевше', unlimited)?.[1], { ...query, price_max: 9_000 });
});

test('a short message changes the search before it', () => {
  const ASKED = 'оренда двокімнатної квартири у Львові до 15000 грн';
  const before = searched(ASKED, callFor(ASKED)?.[1]);
  for (const [text, changed] of [
    ['а в Києві?', { city: 'Київ', price_max: 15_000, rooms_min: 2 }],
    ['а в Одессе?', { city: 'Одеса', price_max: 15_000, rooms_min: 2 }],
    ['до 20000 грн', { city: 'Львів', price_max: 20_000, rooms_min: 2 }],
    ['трикімнатні', { city: 'Львів', price_max: 15_000, rooms_min: 3, rooms_max: 3 }],
    ['дешевше, а в Києві?', { city: 'Київ', price_max: 13_500, rooms_min: 2 }],
  ] as const) {
    const expected = { ...changed, deal_type: 'rent', property_type: 'apartment' };
    assert.partialDeepStrictEqual(callFor(text, before), ['search_listings', expected]);
  }
  // A rent is no budget of a purchase, and a new wish is a new search.
  assert.deepEqual(callFor('а на продаж?', before)?.[1], {
    query: `${ASKED} а на продаж?`,
    deal_type: 'sale',
    property_type: 'apartment',
    city: 'Львів',
    rooms_min: 2,
    rooms_max: 2,
  });
  const house = { query: 'будинок в Одесі', property_type: 'house', city: 'Одеса' };
  assert.deepEqual(callFor('будинок в Одесі', before)?.[1], house);
  assert.equal(callFor('дякую', before), undefined);
  const later = reply('Привіт, як справи?', { before }).text ?? '';
  assert.doesNotMatch(later, /пробна модель/, 'it says once that it is the mock');
});

test('other messages are answered with help in their language', () => {
  for (const [text, help] of [
    ['Привіт, як справи?', /^Напишіть, що шукаєте[^]*пробна модель[^]*MODEL_MODE=openai/],
    ['Привет, что ты умеешь?', /^Напишите, что ищете[^]*пробная модель/],
    ['Hello, what can you do?', /^Say what you look for[^]*mock model/],
    ['дешевше', /^Напишіть/],
    ['забудь про басейн', /^Про це нічого не запамʼятовано/],
  ] as const) {
    assert.match(reply(text).text ?? '', help);
  }
  assert.match(reply('детальніше про 7', { tools: ['search_listings'] }).text ?? '', /^Напишіть/);
});

/** Returns the answer of the mock from the output of a tool. */
function answerFrom(text: string, toolName: string, output: object): string {
  const call = { id: 'c', name: toolName, input: {} };
  const messages: ChatMessage[] = [
    user('Добрий день'),
    { role: 'assistant', content: 'Добрий день.' },
    user(text),
    { role: 'assistant', content: '', toolCalls: [call] },
    { role: 'tool', toolCallId: 'c', toolName, content: JSON.stringify(output) },
  ];
  const { text: words = '' } = mockAgent({ system: SYSTEM, messages, tools: [...PROFILE_TOOLS] });
  return words.replaceAll('\u00A0', ' ');
}

test('the output of a tool is put into the words of the language of the question', () => {
  const listing = {
    listing_id: 7,
    title: 'Flat',
    price: 13_500,
    currency: 'USD',
    rooms: 2,
    floor: '3/9',
  };
  const pets = wish('pets', 'кіт');
  const endpoint = { id: 'http:forge', exposure: 'private', url: 'https://f.test/' };
  for (const [name, output, ...expected] of [
    [
      'search_listings',
      { total: '4', listings: [listing] },
      /^Знайшлося 4, показую 1:\n1\. Flat — 13 500 USD, 2 кімн\., поверх 3\/9, #7$/,
      /^Нашлось 4, показываю 1:\n1\. Flat — 13 500 USD, 2 комн\., этаж 3\/9, #7$/,
      /^4 found, here are 1:\n1\. Flat — 13 500 USD, 2 rooms, floor 3\/9, #7$/,
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
      { ...listing, text: 'By the park.' },
      /^Ось що відомо[^]*, #7\nBy the park\.$/,
      /^Вот что известно[^]*, #7\nBy the park\.$/,
      /^This is what is known[^]*, #7\nBy the park\.$/,
    ],
    [
      'remember_fact',
      { remembered: pets },
      /^Запамʼятовано: pets — кіт\.$/,
      /^Запомнено: pets — кіт\.$/,
      /^Remembered: pets — кіт\.$/,
    ],
    [
      'forget_fact',
      { forgotten: pets },
      /^Забуто: pets — кіт\.$/,
      /^Забыто: pets — кіт\.$/,
      /^Forgotten: pets — кіт\.$/,
    ],
    [
      'lookup_endpoint',
      { endpoints: [endpoint] },
      /^Ось що є в обліку:\n- http:forge \(private\) https:\/\/f\.test\/$/,
      /^Вот что есть в учёте:\n- http:forge/,
      /^This is what the inventory has:\n- http:forge/,
    ],
    [
      'get_listing',
      { error: 'no such' },
      /^Не вдалося: no such\.$/,
      /^Не получилось/,
      /^It failed/,
    ],
  ] as const) {
    const questions = [
      'Покажи, що там є',
      'Покажи, что там есть, пожалуйста',
      'Show me what there is',
    ];
    for (const [index, question] of questions.entries()) {
      assert.match(answerFrom(question, name, output), expected[index] ?? /^$/);
    }
  }
});
