import assert from 'node:assert/strict';
import { copyFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { migrate } from '@oselya/db';
import { openFolder, until } from '@oselya/testing';
import { openTestDatabase } from '@oselya/testing/database';
import { hashContent } from '../../src/ingest/payload.ts';
import type { Tables } from '../../src/tables.ts';
import { getMigrateOptions } from '../../src/database.ts';
import { processPayload, startCollector } from '../support/collector.ts';
import { DIMENSIONS, createPayload } from '../support/pipeline.ts';

const database = await openTestDatabase<Tables>();
const migrateOptions = getMigrateOptions({ EMBEDDING_DIMENSIONS: DIMENSIONS });
const migrationFiles = (await readdir(migrateOptions.folder)).toSorted();

const VECTOR = `[${Array.from({ length: DIMENSIONS }, (_, index) => index + 1).join(',')}]`;
/** A property type as stored before migration 0023, in several spellings. */
const OLD_PROPERTY_TYPE =
  'жило\u0438\u0306 обʼєкт–дача,\u00A0при\u0301ста\u00ADнь ёлка е\u0308ж pokój';
/** The same property type in the spelling of migration 0023, which upkeep keeps as the written word. */
const UNIFIED_PROPERTY_TYPE = "жилой об'єкт-дача, пристань елка еж pokój";
const IMAGE_HASH = 'ab'.repeat(32);
const payload = createPayload({
  external_id: 'old-1',
  price: 59_000,
  currency: 'USD',
  city: 'Львів',
});
const pendingPayload = createPayload({ external_id: 'old-2' });

/** Applies the first migrations to an empty database. */
async function migrateTo(count: number): Promise<void> {
  await database.pool.query('drop schema public cascade');
  await database.pool.query('create schema public');
  const folder = await openFolder();
  for (const file of migrationFiles.slice(0, count)) {
    await copyFile(join(migrateOptions.folder, file), join(folder, file));
  }
  await migrate(database, { ...migrateOptions, folder });
}

async function insert(table: string, row: Record<string, unknown>): Promise<void> {
  const columns = Object.keys(row).join(', ');
  await database.pool.query(
    `insert into ${table} (${columns})
     select ${columns} from jsonb_populate_record(null::${table}, $1::jsonb)`,
    [JSON.stringify(row)],
  );
}

/** Stores the data of an old collector: a listing with history, and a pending payload. */
async function populate(count: number): Promise<void> {
  const hasMigration = (number: number) => count >= number;
  await insert('sources', { slug: 'doshka', created_at: '2026-01-01' });
  const times = { created_at: '2026-01-01', updated_at: '2026-01-01' };
  const payloadColumns = { raw_id: 2, completed_hash: hashContent(payload) };
  await insert('property_listings', {
    source_slug: 'doshka',
    external_id: 'old-1',
    title: payload.title,
    description: payload.description,
    price: 59_000,
    currency: 'USD',
    city: 'Львів',
    city_key: 'львів',
    property_type: hasMigration(23) ? UNIFIED_PROPERTY_TYPE : OLD_PROPERTY_TYPE,
    area_total: 54,
    phones: [],
    features: [],
    attributes: {},
    search_text: 'двокімнатна квартира львів',
    embedding: VECTOR,
    embedding_model: 'mock',
    ...times,
    ...(hasMigration(12) ? {} : payloadColumns),
  });
  if (hasMigration(12)) {
    await insert('listing_payloads', {
      source_slug: 'doshka',
      external_id: 'old-1',
      ...payloadColumns,
    });
  }
  for (const [raw_id, price, changes] of [
    [1, 62_000, {}],
    [2, 59_000, { price: { from: 62_000, to: 59_000 } }],
  ] as const) {
    await insert('listing_snapshots', {
      listing_id: 1,
      raw_id,
      listing: { description: payload.description, price, url: null },
      changes,
      ...(hasMigration(14) ? { revision: 0 } : {}),
      created_at: '2026-01-01',
    });
  }
  const image = { media_type: 'image/png', width: 4, height: 4, bytes: 99 };
  await insert('images', {
    sha256: IMAGE_HASH,
    ...image,
    description: 'A kitchen.',
    described_by: 'qwen3-vl',
    ...(hasMigration(13) ? { prompt_version: 'image-description.v1' } : {}),
    created_at: '2026-01-01',
  });
  const failedDownload = {
    error: 'The address responded with status 503',
    ...(hasMigration(13) && { retry_at: '2026-01-01' }),
  };
  for (const [position, row] of [{ sha256: IMAGE_HASH }, failedDownload].entries()) {
    const url = `https://doshka.example/${position}.png`;
    const created_at = '2026-01-01';
    await insert('listing_images', { listing_id: 1, position, url, created_at, ...row });
  }
  const provenance = hasMigration(8)
    ? { raw_id: 2, prompt_version: 'v0', fields: { price: { origin: 'payload' } } }
    : { prompt: 'v0', fields: { price: 'payload' } };
  for (const [kind, value] of [
    ['provenance', { model: 'qwen3:4b', ...provenance }],
    ['price_per_m2', { value: 1092.59, currency: 'USD' }],
  ]) {
    await insert('listing_enrichments', { listing_id: 1, kind, value, updated_at: '2026-01-01' });
  }
  for (const [sentPayload, status, listing_id] of [
    [{ ...payload, price: 62_000 }, 'completed', 1],
    [payload, 'completed', 1],
    [pendingPayload, 'pending', null],
  ] as const) {
    await insert('raw_data', {
      source_slug: 'doshka',
      external_id: sentPayload.external_id,
      payload: sentPayload,
      content_hash: hashContent(sentPayload),
      status,
      listing_id,
      attempt: 0,
      attempts: 0,
      stages: [],
      ...(hasMigration(6) ? { waits: false } : {}),
      ...(hasMigration(7) ? { inline: false } : {}),
      ...(hasMigration(14) ? { revision: 0 } : {}),
      ...times,
    });
  }
}

// Numbers of migrations applied before data is stored: up to each change of stored data, and all but the last.
for (const count of [2, 5, 7, 11, 13, 22, migrationFiles.length - 1]) {
  test(`Data stored under ${migrationFiles[count - 1]} survives the newer migrations`, async () => {
    await migrateTo(count);
    await populate(count);
    await using collector = await startCollector(database);

    const response = await collector.get('/api/v1/listings/1');
    const listing = response.json<Record<string, unknown>>();
    assert.equal(response.status, 200, response.text);
    assert.deepEqual(
      [listing['external_id'], listing['price'], listing['city'], listing['price_per_m2']],
      ['old-1', 59_000, 'Львів', 1092.59],
    );
    await until('the property type to be resolved', async () => {
      const { property_type, property_type_text } = (
        await collector.get('/api/v1/listings/1')
      ).json<Record<string, unknown>>();
      return property_type === 'house' && property_type_text === UNIFIED_PROPERTY_TYPE;
    });
    assert.deepEqual(listing['provenance'], {
      raw_id: 2,
      model: 'qwen3:4b',
      prompt_version: 'v0',
      fields: { price: { origin: 'source' } },
    });
    const readPriceChanges = async () =>
      (await collector.get('/api/v1/listings/1/history'))
        .json<{ changes: Record<string, unknown> }[]>()
        .map(({ changes }) => changes['price']);
    assert.deepEqual(await readPriceChanges(), [{ from: 62_000, to: 59_000 }, undefined]);
    const images = (await collector.get('/api/v1/listings/1/images')).json<
      { sha256: string | null; described_by: string | null; prompt_version: string | null }[]
    >();
    assert.deepEqual(
      images.map((image) => [image.sha256, image.described_by, image.prompt_version]),
      [
        [IMAGE_HASH, 'qwen3-vl', 'image-description.v1'],
        [null, null, null],
      ],
    );
    const { rows } = await database.pool.query<{ position: number }>(
      'select position from listing_images where retry_at is not null',
    );
    assert.deepEqual(rows, [{ position: 1 }], 'the failed image is described again');

    for (const [kind, body] of [
      ['fulltext', { query: 'квартира', city: 'Львів', property_type: OLD_PROPERTY_TYPE }],
      ['similar', { embedding: JSON.parse(VECTOR) }],
    ] as const) {
      const searchResponse = await collector.post(`/api/v1/search/${kind}`, body);
      const { items } = searchResponse.json<{ items: { listing: { listing_id: number } }[] }>();
      assert.ok(
        items.some((item) => item.listing.listing_id === 1),
        `${kind}: ${searchResponse.text}`,
      );
    }

    // Pending payloads are processed, and new ones continue the history.
    await until('the pending payload', async () => {
      const rawRecord = (await collector.get('/api/v1/raw/3')).json<{ status: string }>();
      return rawRecord.status === 'completed';
    });
    await processPayload(collector, { ...payload, price: 57_000 });
    assert.deepEqual((await readPriceChanges()).slice(0, 2), [
      { from: 59_000, to: 57_000 },
      { from: 62_000, to: 59_000 },
    ]);
  });
}
