import assert from 'node:assert/strict';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { type TSchema, Type } from 'typebox';
import {
  type ChatPart,
  type Conversation,
  createModelClient,
  defineCompletion,
  defineModelSchema,
  imageDescription,
  type MockAgent,
} from '../src/index.ts';
import { describeImage } from '../src/mock/describe-image.ts';
import { embedText } from '../src/mock/embed.ts';
import { extractListing } from '../src/mock/extract-listing.ts';
import { expectFailure } from './support.ts';

type Payload = Parameters<typeof extractListing>[0];
const extract = (payload: Payload): Record<string, unknown> => ({ ...extractListing(payload) });

/** Texts with their expected facts. */
const LISTINGS: [description: string, facts: Record<string, unknown>][] = [
  [
    'Здам 2-к кв на Сихові, просп. Червоної Калини 60. 52/31/8, 5/9 пов. Ціна 15 тис. грн + комунальні (влітку десь 1800 грн). Застава 9000 грн. Без тварин. Тел. +380 00 123 45 01, Оксана.',
    {
      is_listing: true,
      language: 'uk',
      deal_type: 'rent',
      property_type: 'apartment',
      price: 15_000,
      currency: 'UAH',
      city: 'Львів',
      district: 'Сихів',
      address: 'просп. Червоної Калини 60',
      rooms: 2,
      area_total: 52,
      area_living: 31,
      area_kitchen: 8,
      floor: 5,
      floors_total: 9,
      contact_name: 'Оксана',
      phones: ['+380001234501'],
      features: ['no_pets'],
    },
  ],
  [
    "Продам однушку, Київ, 36 м², кухня 7,5 м, четвертий поверх п'ятиповерхового будинку 1985 року. Було 52 000 у.е., тепер 49 500 у.е.",
    { price: 49_500, currency: 'USD', rooms: 1, area_total: 36, area_kitchen: 7.5 },
  ],
  [
    "Продам однушку, Київ, четвертий поверх п'ятиповерхового будинку 1985 року",
    { floor: 4, floors_total: 5, year_built: 1985, rooms: 1, price_per_m2: null, offers: null },
  ],
  [
    'Продам квартиру в Луцьку, 64 м². Було 850 $/м², зараз 790 $/м². Внесок ОСББ 14 грн за метр.',
    { price: null, price_per_m2: 790, currency: 'USD', offers: null },
  ],
  [
    'Офис, Киев, 230 кв.м. Ставка 18 у.е./м², всего 4 140 у.е. в месяц',
    { price: 4140, price_per_m2: 18, currency: 'USD' },
  ],
  ['Land for sale, 10 sotok, 3 200 USD per 100 m2', { price_per_m2: null }],
  [
    'Продам або здам будинок у Фастові, 86 м². Продаж 42 000 $, оренда 9 000 грн/міс.',
    { deal_type: 'sale', price: 42_000, offers: 2 },
  ],
  [
    'Оренда у Львові: 1) 1к, 40 м², 14 000 грн 2) 2к, 52 м², 15 500 грн 3) 2к, 60 м², 18 000 грн',
    { price: 14_000, offers: 3 },
  ],
  ['Студия, Киев. Сутки 1900 грн, на месяц 21 000 грн/мес.', { offers: 2 }],
  ['Продам квартиру з орендарями: здана за 7500 грн, продаж 27 300 доларів', { offers: null }],
  [
    'Продаётся дом в Ирпене, 2 этажа, участок 5 соток, сто двадцать тысяч долларов, 950 $ за м²',
    {
      language: 'ru',
      property_type: 'house',
      price: 120_000,
      price_per_m2: 950,
      currency: 'USD',
      city: 'Ірпінь',
      floor: null,
      floors_total: 2,
    },
  ],
  [
    'Bright 2BR flat for rent in Odesa, 75 sqm, 4th floor of 6. $ 1,200/mo plus utilities (around $80). Balcony, pets welcome. No lift.',
    {
      language: 'en',
      price: 1_200,
      currency: 'USD',
      rooms: 2,
      area_total: 75,
      floor: 4,
      floors_total: 6,
      features: ['balcony', 'pets_allowed'],
    },
  ],
  [
    'Подобово! Студія, Харків. 1200 грн/доба. Застава 2000 грн',
    { deal_type: 'daily_rent', price: 1_200, rooms: 1 },
  ],
  [
    'Ділянка 6,5 соток, с. Гатне, 5 км від Києва, 1,2 млн грн',
    { property_type: 'land', area_total: 650, city: 'Гатне', price: 1_200_000, deal_type: 'sale' },
  ],
  [
    'Здaм квapтиpу y Львoвi, вул. Соборна 5/9, 8 000 грн, без меблів',
    { city: 'Львів', floor: null, address: 'вул. Соборна 5/9', features: [] },
  ],
  ['Здам кімнату у трикімнатній квартирі, 16 м2', { property_type: 'room', rooms: 1 }],
  ['Продам гараж у Вінниці, 9500 доларів', { property_type: 'garage', rooms: null, price: 9_500 }],
  ['Здається офіс 84 м², 38 000 грн/міс', { property_type: 'commercial', price: 38_000 }],
];

suite('listings', () => {
  for (const [description, facts] of LISTINGS) {
    test(`The mock reads: ${description}`, () => {
      const extracted = extract({ description });
      const actualFacts = Object.fromEntries(
        Object.keys(facts).map((key) => [key, extracted[key]]),
      );
      assert.deepEqual(actualFacts, facts);
    });
  }

  test('Fields of the payload take precedence over its text', () => {
    const payloadFields = { price: 44_000, city: 'Kiev', rooms: 3, deal_type: 'rent' } as const;
    const extracted = extract({
      description: 'Продам 2-кімнатну, Одеса, 45 000 $',
      ...payloadFields,
    });
    const { price, city, rooms, deal_type } = extracted;
    assert.deepEqual({ price, city, rooms, deal_type }, { ...payloadFields, city: 'Київ' });
  });

  const otherTexts = [
    'Сниму квартиру в Киеве, до 10000 грн',
    'Looking for a two-bedroom flat in Dnipro, budget 600 dollars',
    'Продам Skoda Octavia 2012, двигун 1.6 дизель, пробіг 214 тис. км',
    'Продам диван, майже новий, 3000 грн',
    'Потрібен менеджер у магазин, зарплата 20000 грн, графік роботи гнучкий',
    'Пасивний дохід від 500$ без вкладень, казино, бонус',
    'Ремонт квартир під ключ: послуги, сантехніка',
    'Доброго дня',
  ];
  for (const description of otherTexts) {
    test(`The mock rejects: ${description}`, () => {
      const { is_listing: isListing, reason, price } = extract({ description });
      assert.deepEqual([isListing, price], [false, undefined]);
      assert.match(String(reason), /^The .*\.$/);
    });
  }

  test('A listing has a title and a summary in its language', () => {
    const facts = { price: 85_000, currency: 'USD', city: 'Львів', rooms: 2, area_total: 60 };
    const texts: [description: string, title: string, summary: string][] = [
      [
        'Продається квартира.',
        '2-кімн. квартира, Львів, 60 м²',
        'Продаж: 2-кімн. квартира, Львів, 60 м². Ціна: 85\u00A0000 USD.',
      ],
      [
        'Apartment for sale',
        '2-room apartment, Львів, 60 m²',
        'For sale: 2-room apartment, Львів, 60 m². Price: 85\u00A0000 USD.',
      ],
    ];
    for (const [description, ...expected] of texts) {
      const { title, summary } = extract({ ...facts, description });
      assert.deepEqual([title, summary], expected);
    }
    const title = '🔥 ТЕРМІНОВО!!!  Продам   квартиру!!!';
    assert.equal(extract({ title, description: 'Київ' })['title'], 'Продам квартиру');
  });

  // A rule that backtracks would take minutes for these texts.
  const HOSTILE =
    'а|aа| |1|1 |1 000 |5/|+1-1-|сто |сто-|без |(|вул. А |Аа |кімнат |площа |1м2 |у.|ж/м |не з |$1|продам!|продам нову |поверх п|с. А |is a |->|шукаю а |looking for a |in a new |\n'.split(
      '|',
    );
  test('A text of 50,000 characters is read to the end', () => {
    for (const part of HOSTILE) {
      const text = `${part.repeat(Math.ceil(50_000 / part.length))}!`;
      assert.ok(Array.isArray(extract({ title: text, description: text, city: text })['phones']));
    }
  });

  test('A text of any characters is read', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const { is_listing: isListing, reason } = extract({ title: text, description: text });
        assert.equal(isListing, reason === null);
      }),
    );
  });
});

test('The samples have three texts without a listing, and small existing images', () => {
  const folder = new URL('../../../samples/', import.meta.url);
  const url = 'http://127.0.0.1:8002/samples/';
  const lines = readFileSync(new URL('listings.jsonl', folder), 'utf8').trimEnd().split('\n');
  const payloads = lines.map(
    (line): Payload & { source_slug: string; external_id: string; image_urls?: string[] } =>
      JSON.parse(line),
  );
  const extracted = payloads.map((payload) => ({ id: payload.external_id, ...extract(payload) }));
  const [listings, otherPayloads] = [true, false].map((isListing) =>
    extracted.filter((one: Record<string, unknown>) => one['is_listing'] === isListing),
  );
  assert.deepEqual(otherPayloads?.map(({ id }) => id).toSorted(), ['50021', 'A-310', 'ld-1011']);
  assert.equal(listings?.length, 92);
  const completeListings = listings?.filter(
    (one: Record<string, unknown>) => one['price'] && one['city'] && one['deal_type'],
  );
  assert.ok((completeListings?.length ?? 0) >= 83, 'nine of ten have a price, a city and a deal');
  // By default, `POST /ingest` accepts 60 payloads of a source per minute, so the samples can be sent twice in one.
  const sources = Map.groupBy(payloads, (payload) => payload.source_slug);
  assert.ok(sources.size >= 4 && [...sources.values()].every(({ length }) => length < 30));
  for (const image of payloads.flatMap(({ image_urls: urls = [] }) => urls)) {
    const file = new URL(image.replace(url, ''), folder);
    assert.ok(existsSync(file) && statSync(file).size <= 60_000, image);
  }
});

function startMock(mockAgent?: MockAgent) {
  return createModelClient({
    mode: 'mock',
    timeoutMs: 10_000,
    embeddingDimensions: 384,
    mockAgent,
  });
}

function request<S extends TSchema>(schema: S, schemaName = 'listing_extraction') {
  return {
    operation: 'extract',
    ...defineCompletion({ schemaName, schema, maxOutputTokens: 500 }),
    system: 'Read the facts of the listing.',
    data: { description: 'Продам двокімнатну квартиру у Львові, 54 м², ціна 52 000 $.' },
  };
}

suite('the mock client', () => {
  const price = Type.Union([Type.Number(), Type.Null()]);
  const Extraction = Type.Object({ is_listing: Type.Boolean(), price, color: price });

  test('Fields without a rule are null, and words are counted as tokens', async () => {
    const { value, model, usage } = await startMock().generateObject(request(Extraction));
    assert.deepEqual(value, { is_listing: true, price: 52_000, color: null });
    assert.equal(model, 'mock');
    assert.ok(usage.calls === 1 && (usage.inputTokens ?? 0) > 20 && (usage.outputTokens ?? 0) > 5);
  });

  test('An image is described by its name', async () => {
    const question = { operation: 'describe', ...imageDescription, system: 'Describe the image.' };
    const image = { bytes: new Uint8Array(4_000).fill(7), mediaType: 'image/jpeg' };
    const data = { hint: 'kitchen.jpg' };
    const { value } = await startMock().generateObject({ ...question, data, image });
    assert.deepEqual(value, { description: 'A kitchen.', room_type: 'kitchen', quality: 'good' });
    const imagelessRequest = startMock().generateObject({ ...question, data });
    assert.match((await expectFailure(imagelessRequest, 'MODEL_REJECTED')).message, /no image/);
  });

  test('Unknown schemas are rejected, and answers are validated', async () => {
    const poemRequest = startMock().generateObject(request(Extraction, 'poem'));
    const { message } = await expectFailure(poemRequest, 'MODEL_REJECTED');
    assert.match(message, /named poem.*listing_extraction and image_description/);
    const impossibleRequest = {
      ...request(Extraction),
      schema: Type.Object({ price: Type.Null() }),
    };
    await expectFailure(startMock().generateObject(impossibleRequest), 'MODEL_INVALID_OUTPUT');
  });

  test('The mock is healthy and can be closed', async () => {
    const client = startMock();
    assert.deepEqual(await client.health(), { status: 'ok', mode: 'mock' });
    await client.close();
    await expectFailure(client.embed(['a']), 'MODEL_CLOSED');
  });

  test('The mock agent streams answers and calls tools', async () => {
    const conversations: Conversation[] = [];
    const toolCalls = [{ id: 'c-1', name: 'look', input: { at: 'дім' } }];
    const client = startMock((conversation) => {
      conversations.push(conversation);
      return { text: 'Зараз  гляну.', toolCalls };
    });
    const chat = {
      operation: 'chat',
      system: 'Help.',
      messages: [
        { role: 'user', content: 'Покажи.' },
        { role: 'assistant', content: '', toolCalls: [{ id: 'c-0', name: 'look', input: {} }] },
        { role: 'tool', toolCallId: 'c-0', toolName: 'look', content: 'nothing' },
      ],
      tools: [
        { name: 'look', description: 'Looks.', input: defineModelSchema('look', Type.Object({})) },
      ],
    } as const;
    const parts: ChatPart[] = await Array.fromAsync(client.streamChat(chat));
    assert.deepEqual(parts, [
      { type: 'text', text: 'Зараз  ' },
      { type: 'text', text: 'гляну.' },
      { type: 'tool_call', call: toolCalls[0] },
      {
        type: 'end',
        reason: 'tool_calls',
        model: 'mock',
        usage: { inputTokens: 4, outputTokens: 12 },
      },
    ]);
    assert.deepEqual(conversations, [
      { system: 'Help.', messages: chat.messages, tools: ['look'] },
    ]);
    await expectFailure(startMock().streamChat(chat).next(), 'MODEL_REJECTED');
  });
});

test('A description follows the words of the file name', () => {
  const rooms: Record<string, string> = {
    kitchen:
      'http://127.0.0.1:8002/samples/kitchen-green.jpg?size=2|%D0%BA%D1%83%D1%85%D0%BD%D1%8F.jpg',
    bathroom: 'Ванна кімната.png|C:\\photos\\bathroom.jpg',
    bedroom: 'спальня.jpg',
    living_room: 'living-room-sofa.jpg|гостиная.jpg',
    exterior: 'фасад.jpg|house-brick.jpg',
    plan: 'floor-plan.jpg',
    other: 'IMG_2041.jpg|%E0%A4%A.jpg',
  };
  const bytes = new Uint8Array(4_096);
  for (const [room, hints] of Object.entries(rooms)) {
    for (const hint of hints.split('|')) assert.equal(describeImage(bytes, hint).room_type, room);
  }
  assert.equal(describeImage(new Uint8Array(10), 'kitchen.png').quality, 'poor');
  assert.equal(describeImage(bytes, 'кухня темно.jpg').quality, 'poor');
});

suite('embeddings', () => {
  function computeCosine(a: string, b: string): number {
    const [left, right] = [embedText(a, 384), embedText(b, 384)];
    return left.reduce((sum, value, index) => sum + value * (right[index] ?? 0), 0);
  }

  /** Three texts per line: the second is close in meaning to the first, and the third is not. */
  const TRIPLES = `квартира у Львові | apartment in Lviv | гараж в Одессе
оренда квартири подобово | посуточная аренда квартиры | продаж земельної ділянки
будинок з садом | house with a garden | офіс у центрі
земельна ділянка 10 соток | участок 10 соток | кімната біля метро
квартира з балконом | flat with a balcony | гараж з ямою
продам двушку | продаж двокімнатної квартири | сдам офис
вид на море, Одеса | sea view in Odessa | новобудова, Київ
можна з тваринами | pets allowed | без меблів
дешева кімната | cheap room | luxury villa
Flat in Dnipro | квартира у Дніпрі | будинок у Полтаві`;

  test('Texts with the same meaning have similar embeddings', () => {
    for (const line of TRIPLES.split('\n')) {
      const [text = '', related = '', other = ''] = line.split(' | ');
      assert.ok(computeCosine(text, related) > computeCosine(text, other), line);
    }
    assert.deepEqual(embedText('КВАPТИРА, мёд, пʼять', 64), embedText("квартира мед п'ять", 64));
  });

  test('An embedding is a finite unit vector, also for texts without words', () => {
    assert.deepEqual(embedText(' … !', 3), [1, 0, 0]);
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary' }),
        fc.integer({ min: 1, max: 999 }),
        (text, width) => {
          const vector = embedText(text, width);
          assert.ok(vector.length === width && Math.abs(Math.hypot(...vector) - 1) < 1e-9);
        },
      ),
    );
  });
});
