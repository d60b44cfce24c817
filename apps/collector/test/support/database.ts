import assert from 'node:assert/strict';
import { openTestDatabase, type TestDatabase } from '@oselya/db/testing';
import type { Tables } from '../../src/tables.ts';
import { contentHash, type Payload } from '../../src/ingest/payload.ts';
import { storeRaws } from '../../src/ingest/store.ts';
import { migrations } from '../../src/database.ts';

export const DIMENSIONS = 16;

/** The collector's database for one test file. */
export function openDatabase(): Promise<TestDatabase<Tables>> {
  return openTestDatabase<Tables>([migrations({ EMBEDDING_DIMENSIONS: DIMENSIONS })]);
}

/** Stores a payload as the ingest does, past its limits and checks. */
export async function store(db: TestDatabase<Tables>['db'], payload: Payload): Promise<number> {
  const raw = {
    source_slug: payload.source_slug,
    external_id: payload.external_id,
    payload: JSON.stringify(payload),
    content_hash: contentHash(payload),
  };
  const [stored] = await storeRaws(db, [raw], assert.ifError);
  assert.ok(stored !== undefined && 'id' in stored);
  return stored.id;
}

/** A raw record as it stands. */
export function rawRecord(db: TestDatabase<Tables>['db'], rawId: number) {
  return db.selectFrom('raw_data').selectAll().where('id', '=', rawId).executeTakeFirstOrThrow();
}
