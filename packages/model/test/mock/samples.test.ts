import assert from 'node:assert/strict';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { describe, test } from 'node:test';
import { readListing } from '../../src/mock/read-listing.ts';

type Payload = Record<string, unknown> & {
  source_slug: string;
  external_id: string;
  description: string;
};

const SAMPLES = new URL('../../../../samples/', import.meta.url);
const IMAGES = 'http://127.0.0.1:8002/samples/';

const payloads: Payload[] = readFileSync(new URL('listings.jsonl', SAMPLES), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line));

const keyOf = ({ source_slug: source, external_id: id }: Payload): string => `${source}/${id}`;
const imagesOf = (payload: Payload): string[] =>
  Array.isArray(payload.image_urls) ? payload.image_urls.map(String) : [];

/** The keys of Contract 4, PayloadSchema; ingest refuses any other. */
const ALLOWED = new Set(
  'source_slug external_id description url title price currency deal_type property_type city district address rooms area_total area_living area_kitchen floor floors_total latitude longitude contact_name phones published_at image_urls attributes'.split(
    ' ',
  ),
);

/** A car, a person who seeks a flat, and an invitation to a casino. */
const NO_LISTINGS = ['kyiv-rent/50021', 'lviv-doshka/ld-1011', 'odesa-homes/A-310'];

describe('samples/listings.jsonl', () => {
  test('has at least 90 payloads that ingest accepts', () => {
    assert.ok(payloads.length >= 90);
    for (const payload of payloads) {
      const unknown = Object.keys(payload).filter((key) => !ALLOWED.has(key));
      assert.deepEqual(unknown, [], keyOf(payload));
      assert.match(payload.source_slug, /^[a-z0-9][a-z0-9_-]{0,63}$/u);
      assert.ok(payload.external_id.length >= 1 && payload.external_id.length <= 200);
      assert.ok(payload.description.length >= 1 && payload.description.length <= 50_000);
    }
  });

  test('comes from four sources or more, each within one minute of the ingest rate', () => {
    const counts = Map.groupBy(payloads, ({ source_slug: source }) => source);
    assert.ok(counts.size >= 4);
    for (const [source, lines] of counts) assert.ok(lines.length < 30, source);
  });

  test('repeats listings unchanged and sends some again with another price', () => {
    const groups = [...Map.groupBy(payloads, keyOf).values()].filter(({ length }) => length > 1);
    const texts = groups.map((group) => new Set(group.map((line) => JSON.stringify(line))).size);
    assert.ok(texts.filter((count) => count === 1).length >= 3);
    const repriced = groups.filter(
      (group) => new Set(group.map((line) => readListing(line).price)).size > 1,
    );
    assert.ok(repriced.length >= 3);
  });

  test('holds exactly three payloads that are no listing', () => {
    const refused = payloads.filter((payload) => !readListing(payload).is_listing).map(keyOf);
    assert.deepEqual(refused.toSorted(), NO_LISTINGS);
  });

  test('gives price, city and deal type in nine listings of ten', () => {
    const listings = payloads.map(readListing).filter((read) => read.is_listing);
    const complete = listings.filter((read) => read.price && read.city && read.deal_type);
    assert.ok(complete.length >= listings.length * 0.9, `${complete.length}/${listings.length}`);
  });

  test('names pictures that exist and are small, one of them in two listings', () => {
    const withImages = payloads.filter((payload) => imagesOf(payload).length > 0);
    assert.ok(new Set(withImages.map(keyOf)).size >= 5);
    const owners = new Map<string, Set<string>>();
    for (const payload of withImages) {
      for (const url of imagesOf(payload)) {
        assert.ok(url.startsWith(`${IMAGES}images/`), url);
        const file = new URL(url.slice(IMAGES.length), SAMPLES);
        assert.ok(existsSync(file), url);
        assert.ok(statSync(file).size <= 60_000, url);
        owners.set(url, (owners.get(url) ?? new Set()).add(keyOf(payload)));
      }
    }
    assert.ok([...owners.values()].some(({ size }) => size > 1));
  });
});
