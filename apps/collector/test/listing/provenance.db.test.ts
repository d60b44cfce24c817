import assert from 'node:assert/strict';
import { test } from 'node:test';
import { extractionPrompt } from '../../src/pipeline/extraction.ts';
import type { Provenance } from '../../src/listing/provenance.ts';
import { processThrough, type Raw, startCollector } from '../support/collector.ts';
import { openDatabase, payloadOf } from '../support/pipeline.ts';

const database = await openDatabase();
const { db } = database;
const collector = await startCollector(database);

/** Sends a payload and waits until it is a listing. */
async function processed(payload: object): Promise<Raw> {
  const raw = await processThrough(collector, payload);
  assert.equal(raw.status, 'completed', JSON.stringify(raw.error));
  return raw;
}

type Answer = Record<string, unknown> & {
  price_per_m2: number | null;
  provenance: Omit<Provenance, 'requested_model' | 'raw_id'> & { raw_id: number | null };
};

/** What our own code made of somebody's value. */
const rule = (name: string, of?: string) => ({ origin: 'rule', rule: name, ...(of && { of }) });

test('every fact of a listing can be traced to who named it, and to the payload it came from', async () => {
  const payload = payloadOf({
    title: ' Двокімнатна квартира ',
    property_type: 'Apartment',
    price: 62_000.019,
    floor: 9,
    floors_total: 5,
  });
  const raw = await processed(payload);
  const answer = await collector.get(`/api/v1/listings/${raw.listing_id}`);
  const { provenance, ...listing } = answer.json<Answer>();
  const { fields, ...made } = provenance;
  assert.deepEqual(made, {
    raw_id: raw.raw_id,
    model: 'mock',
    prompt_version: extractionPrompt.version,
  });
  assert.deepEqual(fields['title'], rule('cleaned', 'payload'));
  assert.deepEqual(fields['description'], { origin: 'payload' });
  assert.deepEqual(fields['rooms'], { origin: 'model' });
  assert.deepEqual(fields['property_type'], rule('lower_case', 'payload'));
  assert.deepEqual(fields['price'], rule('rounded', 'payload'));
  assert.deepEqual(fields['floor'], rule('contradiction', 'payload'));
  assert.deepEqual(fields['price_per_m2'], rule('price_by_area'));
  assert.equal(listing.price_per_m2, 1148.15);
  assert.deepEqual([listing['floor'], listing['floors_total']], [null, null]);
  // Nothing that has a value is without an origin.
  const own = new Set([
    'listing_id',
    'source_slug',
    'external_id',
    'archived_at',
    'created_at',
    'updated_at',
  ]);
  for (const [key, value] of Object.entries(listing)) {
    const isNothing =
      value === null || JSON.stringify(value) === '[]' || JSON.stringify(value) === '{}';
    if (!own.has(key) && !isNothing) assert.ok(fields[key], `${key} comes from nowhere`);
  }
});

test('a changed payload is the new origin, and its snapshot tells who read it', async () => {
  const payload = payloadOf({ price: 100, currency: 'USD' });
  const first = await processed(payload);
  const second = await processed({ ...payload, price: 90 });
  const address = `/api/v1/listings/${first.listing_id}`;
  const { provenance } = (await collector.get(address)).json<Answer>();
  assert.equal(provenance.raw_id, second.raw_id);
  const history = (await collector.get(`${address}/history`)).json<
    { raw_id: number; model: string; prompt_version: string }[]
  >();
  assert.deepEqual(
    history.map(({ raw_id, model, prompt_version }) => [raw_id, model, prompt_version]),
    [
      [second.raw_id, 'mock', extractionPrompt.version],
      [first.raw_id, 'mock', extractionPrompt.version],
    ],
  );
});

/** What the removal of old payloads does with one. */
const remove = (rawId: number) => db.deleteFrom('raw_data').where('id', '=', rawId).execute();

test('the origin is the last payload that said so, and nothing once that was removed', async () => {
  const payload = payloadOf();
  const first = await processed(payload);
  const again = await processed(payload);
  const origin = async () =>
    (await collector.get(`/api/v1/listings/${first.listing_id}`)).json<Answer>().provenance.raw_id;
  assert.equal(await origin(), again.raw_id);
  await remove(first.raw_id);
  assert.equal((await collector.get(`/api/v1/raw/${await origin()}`)).status, 200);
  await remove(again.raw_id);
  assert.equal(await origin(), null);
});

test('what a payload cost is in its record and in the metrics', async () => {
  const before = await tokens();
  const { model_usage: usage } = await processed(payloadOf());
  assert.equal(usage?.calls, 2);
  const counted = await tokens();
  assert.equal(counted.input - before.input, usage.input_tokens);
  assert.equal(counted.output - before.output, usage.output_tokens);
});

/** All tokens that the metrics have counted. */
async function tokens(): Promise<{ input: number; output: number }> {
  const sum = { input: 0, output: 0 };
  const lines = (await collector.get('/metrics')).text.matchAll(
    /^collector_model_tokens_total\{.*direction="(input|output)".*\} (\d+)$/gm,
  );
  for (const [, direction, count] of lines) {
    sum[direction === 'input' ? 'input' : 'output'] += Number(count);
  }
  return sum;
}

test('what a square metre costs follows from what is shown beside it, whatever was written since', async () => {
  const { listing_id: id } = await processed(payloadOf({ price: 100_000, area_total: 50 }));
  const shown = async (changes: object) => {
    await db.updateTable('property_listings').set(changes).where('id', '=', id).execute();
    const answer = await collector.get(`/api/v1/listings/${id}`);
    return answer.json<Answer>().price_per_m2;
  };
  assert.equal(await shown({ price: 100_000 }), 2000);
  assert.equal(await shown({ price: 4_100_000 }), 82_000);
  assert.equal(await shown({ area_total: null }), null);
});
