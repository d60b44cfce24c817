import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { type TSchema, Type } from 'typebox';
import { createModelClient, defineAnswer, type ModelCallEvent } from '../../src/index.ts';
import { failsWith } from '../support.ts';

const Extraction = Type.Object({
  is_listing: Type.Boolean(),
  deal_type: Type.Union([Type.String(), Type.Null()]),
  city: Type.Union([Type.String(), Type.Null()]),
  price: Type.Union([Type.Number(), Type.Null()]),
  currency: Type.Union([Type.String(), Type.Null()]),
  rooms: Type.Union([Type.Number(), Type.Null()]),
});

const Description = Type.Object({
  description: Type.String({ minLength: 1 }),
  room_type: Type.String(),
  quality: Type.Enum(['good', 'poor']),
});

function startMock(events: ModelCallEvent[] = []) {
  return createModelClient({
    mode: 'mock',
    timeoutMs: 10_000,
    embeddingDimensions: 384,
    observe: (event) => events.push(event),
  });
}

function extract<S extends TSchema>(schema: S, schemaName = 'listing_extraction') {
  return {
    operation: 'extract',
    ...defineAnswer({ schemaName, schema, maxOutputTokens: 500 }),
    system: 'Read the facts of the listing.',
    data: {
      title: '2-кімнатна квартира, Львів',
      description: 'Продам двокімнатну квартиру у Львові, 54 м², ціна 52 000 $.',
    },
  };
}

function describe(hint: string) {
  return startMock().generateObject({
    operation: 'describe',
    ...defineAnswer({
      schemaName: 'image_description',
      schema: Description,
      maxOutputTokens: 500,
    }),
    system: 'Describe the picture.',
    data: { hint },
    image: { bytes: new Uint8Array(4_000).fill(7), mediaType: 'image/jpeg' },
  });
}

/** What it costs to have a text read. */
async function usageOf(description: string) {
  const question = { ...extract(Extraction), data: { description } };
  return (await startMock().generateObject(question)).usage;
}

suite('the mock mode', () => {
  test('reads a listing by the rules, through the whole client', async () => {
    const events: ModelCallEvent[] = [];
    const { value, model } = await startMock(events).generateObject(extract(Extraction));
    assert.deepEqual(
      { value, model },
      {
        value: {
          is_listing: true,
          deal_type: 'sale',
          city: 'Львів',
          price: 52_000,
          currency: 'USD',
          rooms: 2,
        },
        model: 'mock',
      },
    );
    assert.deepEqual(
      events.map(({ operation, outcome }) => [operation, outcome]),
      [['extract', 'ok']],
    );
  });

  test('counts words and signs as tokens, of equal questions equally', async () => {
    const short = await usageOf('Продам квартиру у Львові');
    const long = await usageOf('Продам квартиру у Львові, поруч парк');
    assert.equal(short.calls, 1);
    assert.ok((short.outputTokens ?? 0) > 0);
    assert.equal((long.inputTokens ?? 0) - (short.inputTokens ?? 0), 3, 'a comma and two words');
    assert.deepEqual(await usageOf('Продам квартиру у Львові'), short);
  });

  test('describes a picture, and looks at a hint in the data', async () => {
    assert.equal((await describe('kitchen.jpg')).value.room_type, 'kitchen');
    assert.equal((await describe('bathroom.jpg')).value.room_type, 'bathroom');
    assert.deepEqual(await describe('kitchen.jpg'), await describe('kitchen.jpg'));
  });

  test('embeds texts, equal ones equally', async () => {
    const { vectors, model, usage } = await startMock().embed(['квартира', 'будинок', 'квартира']);
    assert.equal(model, 'mock-embedding');
    assert.deepEqual(usage, { calls: 1, inputTokens: 3, outputTokens: null });
    assert.deepEqual(
      vectors.map(({ length }) => length),
      [384, 384, 384],
    );
    assert.deepEqual(vectors[0], vectors[2]);
    assert.notDeepEqual(vectors[0], vectors[1]);
  });

  test('says which names it knows when it is asked for another', async () => {
    const error = await failsWith(
      startMock().generateObject(extract(Extraction, 'poem')),
      'MODEL_REJECTED',
    );
    assert.match(error.message, /named poem.*listing_extraction and image_description/);
  });

  test('says so when there is no picture to describe', async () => {
    const error = await failsWith(
      startMock().generateObject(extract(Extraction, 'image_description')),
      'MODEL_REJECTED',
    );
    assert.match(error.message, /no image/);
  });

  test('is validated like a server: a schema it cannot meet is invalid output', async () => {
    const Impossible = Type.Object({ ...Extraction.properties, price: Type.Null() });
    await failsWith(
      startMock().generateObject({ ...extract(Extraction), schema: Impossible }),
      'MODEL_INVALID_OUTPUT',
    );
  });

  test('is always healthy and can be closed', async () => {
    const client = startMock();
    assert.deepEqual(await client.health(), { status: 'ok', mode: 'mock' });
    await client.close();
    await failsWith(client.embed(['a']), 'MODEL_CLOSED');
  });
});
