import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { searchText } from '../../src/pipeline/listing-state.ts';
import { openDatabase } from '../support/pipeline.ts';

const { db } = await openDatabase();

const bare = {
  title: null,
  summary: null,
  property_type: null,
  city: null,
  district: null,
  address: null,
  features: [],
};

// Three bytes each.
const letter = (index: number) => String.fromCodePoint(0x4e00 + index);
const vector = (text: string) => sql`select to_tsvector('simple', ${text})`.execute(db);

test('no text is too long for PostgreSQL, not even words that are all different', async () => {
  // Every word is a new one, which is what a search vector grows most by.
  const words = Array.from(
    { length: 400_000 },
    (_, index) =>
      letter(index % 20_000) + (index < 20_000 ? '' : letter(Math.trunc(index / 20_000))),
  );
  const description = words.join(' ');
  await assert.rejects(vector(description), /too long for tsvector/);
  await vector(searchText({ ...bare, description }));
});
