import assert from 'node:assert/strict';
import { access, glob, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import { compareListings } from '../src/compare/rows.ts';
import { en } from '../src/i18n/en/index.ts';
import { buildPath, createChart } from '../src/listing/chart.ts';
import type { Listing, PriceChange } from '../src/listings/types.ts';

const change = (members: Partial<PriceChange>): PriceChange => ({
  listing_id: 1,
  source_slug: 'misto',
  price: 100,
  currency: 'USD',
  price_converted: null,
  changed_at: '2026-11-01T00:00:00Z',
  ...members,
});

test('A chart has a line for each advert of the property, in one currency', () => {
  const chart = createChart(
    [
      change({}),
      change({ price: 90, changed_at: '2026-11-03T00:00:00Z' }),
      change({
        listing_id: 2,
        price: 4200,
        currency: 'UAH',
        price_converted: { amount: 95, currency: 'USD' },
      }),
      change({ listing_id: 3, price: 5, currency: 'EUR' }),
      change({ listing_id: 4, price: null }),
    ],
    Date.parse('2026-11-05T00:00:00Z'),
  );
  assert.partialDeepStrictEqual(chart, { currency: 'USD', minAmount: 90, maxAmount: 100 });
  assert.deepEqual(
    chart?.lines.map(({ id, points }) => [id, points.map(({ amount }) => amount)]),
    [
      [1, [100, 90, 90]],
      [2, [95, 95]],
    ],
  );
  assert.equal(createChart([change({ price: null })], 0), undefined);
  const points = [
    { time: 0, amount: 3 },
    { time: 2, amount: 1 },
  ];
  assert.equal(
    buildPath(points, ({ time, amount }) => [time, amount]),
    'M0 3H2V1',
  );
});

test('The best values of a comparison are those that can be compared', () => {
  const listing = (members: Partial<Listing>) =>
    ({ price: 100, currency: 'USD', deal_type: 'sale', rooms: 2, ...members }) as Listing;
  const compare = (...listings: Listing[]) =>
    compareListings(listings, { language: 'en', texts: en.listings });
  const facts = compare(listing({}), listing({ price: 90, rooms: 3 }));
  assert.deepEqual(
    facts.map(({ name, isBest, isSame }) => [name, isBest, isSame]),
    [
      ['price', [false, true], false],
      ['deal_type', [false, false], true],
      ['rooms', [false, true], false],
    ],
  );
  const [price] = compare(listing({}), listing({ price: 9, deal_type: 'rent' }));
  assert.deepEqual(price?.isBest, [false, false]);
});

test('Every component in use has its styles', async () => {
  const source = join(import.meta.dirname, '../src');
  const paths = await Array.fromAsync(glob('**/*.{ts,tsx}', { cwd: source }));
  const texts = await Promise.all(paths.map((path) => readFile(join(source, path), 'utf8')));
  const imports = texts.flatMap((text) => [
    ...text.matchAll(/(?:im|ex)port \{([^}]*)\} from '@mantine\/core'/g),
  ]);
  const names = new Set(imports.flatMap(([, list = '']) => list.match(/\b[A-Z]\w+/g) ?? []));
  const styled = texts.join('');
  const { resolve } = createRequire(import.meta.url);
  const styleFolder = join(resolve('@mantine/core/styles.css'), '../styles');
  const missing: string[] = [];
  for (const name of names) {
    const file = `${name}.layer.css`;
    const hasFile = await access(join(styleFolder, file)).then(
      () => true,
      () => false,
    );
    if (hasFile && !styled.includes(`styles/${file}`)) missing.push(name);
  }
  assert.deepEqual(missing, []);
});
