import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { type TSchema, Type } from 'typebox';
import {
  type ChatPart,
  type Conversation,
  createModelClient,
  defineAnswer,
  defineModelSchema,
  imageDescription,
  type MockAgent,
} from '../src/index.ts';
import { describeImage } from '../src/mock/describe-image.ts';
import { embedText } from '../src/mock/embed.ts';
import { failsWith } from './support.ts';

function startMock(mockAgent?: MockAgent) {
  return createModelClient({
    mode: 'mock',
    timeoutMs: 10_000,
    embeddingDimensions: 384,
    ...(mockAgent && { mockAgent }),
  });
}

const Extraction = Type.Object({
  is_listing: Type.Boolean(),
  price: Type.Union([Type.Number(), Type.Null()]),
  color: Type.Union([Type.String(), Type.Null()]),
});

function extract<S extends TSchema>(schema: S, schemaName = 'listing_extraction') {
  return {
    operation: 'extract',
    ...defineAnswer({ schemaName, schema, maxOutputTokens: 500 }),
    system: 'Read the facts of the listing.',
    data: { description: 'Продам двокімнатну квартиру у Львові, 54 м², ціна 52 000 $.' },
  };
}

const usageOf = async (description: string) => {
  const question = { ...extract(Extraction), data: { description } };
  return (await startMock().generateObject(question)).usage;
};

suite('the mock mode', () => {
  test('The mock reads a listing by rules, and fields without a rule are null', async () => {
    const { value, model } = await startMock().generateObject(extract(Extraction));
    assert.deepEqual(value, { is_listing: true, price: 52_000, color: null });
    assert.equal(model, 'mock');
  });

  test('The mock counts words and signs as tokens', async () => {
    const short = await usageOf('Продам квартиру у Львові');
    const long = await usageOf('Продам квартиру у Львові, поруч парк');
    assert.ok(short.calls === 1 && (short.outputTokens ?? 0) > 0);
    assert.equal((long.inputTokens ?? 0) - (short.inputTokens ?? 0), 3, 'a comma and two words');
    assert.deepEqual(await usageOf('Продам квартиру у Львові'), short);
  });

  test('The mock describes an image by the hint in the data', async () => {
    const { value } = await startMock().generateObject({
      operation: 'describe',
      ...imageDescription,
      system: 'Describe the image.',
      data: { hint: 'kitchen.jpg' },
      image: { bytes: new Uint8Array(4_000).fill(7), mediaType: 'image/jpeg' },
    });
    assert.deepEqual(value, { description: 'A kitchen.', room_type: 'kitchen', quality: 'good' });
  });

  test('The mock embeds equal texts equally', async () => {
    const { vectors, model, usage } = await startMock().embed(['квартира', 'будинок', 'квартира']);
    assert.equal(model, 'mock-embedding');
    assert.deepEqual(usage, { calls: 1, inputTokens: 3, outputTokens: null });
    assert.deepEqual(vectors[0], vectors[2]);
    assert.notDeepEqual(vectors[0], vectors[1]);
  });

  test('The mock rejects unknown schemas, and its answers are validated', async () => {
    const poem = startMock().generateObject(extract(Extraction, 'poem'));
    const { message } = await failsWith(poem, 'MODEL_REJECTED');
    assert.match(message, /named poem.*listing_extraction and image_description/);
    const blind = startMock().generateObject(extract(Extraction, 'image_description'));
    assert.match((await failsWith(blind, 'MODEL_REJECTED')).message, /no image/);
    const schema = Type.Object({ price: Type.Null() });
    const impossible = startMock().generateObject({ ...extract(Extraction), schema });
    await failsWith(impossible, 'MODEL_INVALID_OUTPUT');
  });

  test('The mock is always healthy and can be closed', async () => {
    const client = startMock();
    assert.deepEqual(await client.health(), { status: 'ok', mode: 'mock' });
    await client.close();
    await failsWith(client.embed(['a']), 'MODEL_CLOSED');
  });

  test('The mock agent streams answers and calls tools', async () => {
    const seen: Conversation[] = [];
    const client = startMock((conversation) => {
      seen.push(conversation);
      const toolCalls = [{ id: 'c-1', name: 'look', input: { at: 'дім' } }];
      return { text: 'Зараз  гляну.', toolCalls };
    });
    const input = defineModelSchema('look', Type.Object({}));
    const request = {
      operation: 'chat',
      system: 'Help.',
      messages: [
        { role: 'user', content: 'Покажи.' },
        { role: 'assistant', content: '', toolCalls: [{ id: 'c-0', name: 'look', input: {} }] },
        { role: 'tool', toolCallId: 'c-0', toolName: 'look', content: 'nothing' },
      ],
      tools: [{ name: 'look', description: 'Looks.', input }],
    } as const;
    const parts: ChatPart[] = [];
    for await (const part of client.streamChat(request)) parts.push(part);
    const usage = { inputTokens: 4, outputTokens: 12 };
    assert.deepEqual(parts, [
      { type: 'text', text: 'Зараз  ' },
      { type: 'text', text: 'гляну.' },
      { type: 'tool_call', call: { id: 'c-1', name: 'look', input: { at: 'дім' } } },
      { type: 'end', reason: 'tool_calls', model: 'mock', usage },
    ]);
    assert.deepEqual(seen, [{ system: 'Help.', messages: request.messages, tools: ['look'] }]);
    await failsWith(startMock().streamChat(request).next(), 'MODEL_REJECTED');
  });
});

const look = (hint: string) => describeImage(new Uint8Array(4_096), hint);

suite('a description of an image', () => {
  test('A description follows the words of the file name', () => {
    const rooms = {
      kitchen:
        'kitchen-1.jpg|http://127.0.0.1:8002/samples/kitchen-green.jpg?size=2|кухня.jpg|%D0%BA%D1%83%D1%85%D0%BD%D1%8F.jpg|kuhnya_02.webp|https://example.test/kitchen/',
      bathroom: 'Ванна кімната.png|санузел.jpg|C:\\photos\\bathroom.jpg',
      bedroom: 'спальня.jpg|bedroom-blue.jpg',
      living_room: 'вітальня.jpg|living-room-sofa.jpg|гостиная.jpg',
      exterior: 'фасад.jpg|house-brick.jpg',
      plan: 'floor-plan.jpg|план квартири.jpg',
      other: 'IMG_2041.jpg|%E0%A4%A.jpg',
    };
    for (const [room, hints] of Object.entries(rooms)) {
      for (const hint of hints.split('|')) assert.equal(look(hint).room_type, room, hint);
    }
  });

  test('Tiny files and names of poor images get a low quality', () => {
    assert.equal(describeImage(new Uint8Array(10), 'kitchen.png').quality, 'poor');
    for (const hint of ['kitchen-blurry.jpg', 'кухня темно.jpg']) {
      assert.equal(look(hint).quality, 'poor');
    }
  });

  test('A description never throws for any name', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (hint) => look(hint).description.length > 0),
    );
  });
});

function cosine(a: string, b: string): number {
  const [left, right] = [embedText(a, 384), embedText(b, 384)];
  return left.reduce((sum, value, at) => sum + value * (right[at] ?? 0), 0);
}

suite('an embedding', () => {
  /** A text, one with a similar meaning, and one with another meaning. */
  const TRIPLES = `квартира у Львові | apartment in Lviv | гараж в Одессе
квартира в Києві | квартира в Киеве | house in Odesa
оренда квартири подобово | посуточная аренда квартиры | продаж земельної ділянки
будинок з садом | house with a garden | офіс у центрі
кімната для студента | room for a student | продаж складу
земельна ділянка 10 соток | участок 10 соток | кімната біля метро
офіс у центрі Харкова | office in the centre of Kharkiv | дача біля лісу
квартира з балконом | flat with a balcony | гараж з ямою
продам двушку | продаж двокімнатної квартири | сдам офис
вид на море, Одеса | sea view in Odessa | новобудова, Київ
квартира біля метро | apartment near the subway | house by the sea
можна з тваринами | pets allowed | без меблів
автономне опалення | own heating | вид на море
новобудова з ліфтом | new building with an elevator | старий будинок у селі
квартира з ремонтом | renovated flat | ділянка без комунікацій
дешева кімната | cheap room | luxury villa
тихий район для сімʼї | quiet area for a family | офіс біля вокзалу
гараж у кооперативі | garage for sale | apartment for rent
паркінг у дворі | parking in the yard | балкон і тераса
здам квартиру | сдам квартиру | продам дом
п’ятий поверх | п'ятий поверх | перша лінія моря
мебель и техника | furniture and appliances | гараж и подвал
Flat in Dnipro | квартира у Дніпрі | будинок у Полтаві`;

  test('Texts with the same meaning have similar embeddings', () => {
    for (const line of TRIPLES.split('\n')) {
      const [text = '', related = '', other = ''] = line.split(' | ');
      assert.ok(cosine(text, related) > cosine(text, other), line);
    }
  });

  test('An embedding ignores case, ё, apostrophes and look-alike letters', () => {
    assert.deepEqual(embedText('КВАРТИРА, мёд', 64), embedText('квартира мед', 64));
    assert.deepEqual(embedText('пʼять', 64), embedText("п'ять", 64));
    assert.deepEqual(embedText('квapтира', 64), embedText('квартира', 64));
  });

  test('An embedding is a finite unit vector, also for texts without words', () => {
    assert.deepEqual(embedText(' … !', 3), [1, 0, 0]);
    const widths = fc.integer({ min: 1, max: 1_024 });
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), widths, (text, width) => {
        const vector = embedText(text, width);
        assert.equal(vector.length, width);
        assert.ok(vector.every(Number.isFinite));
        assert.ok(Math.abs(Math.hypot(...vector) - 1) < 1e-9);
      }),
    );
  });
});
