import assert from 'node:assert/strict';
import { copyFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { migrate } from '@oselya/db';
import { openFolder } from '@oselya/testing';
import { openTestDatabase, watchDatabase } from '@oselya/testing/database';
import fc from 'fast-check';
import { type Kysely, sql } from 'kysely';
import { getMigrateOptions } from '../../src/database.ts';
import { DEAL_TYPES } from '../../src/listing/fields.ts';
import { storeRates } from '../../src/money/rates.ts';
import { normalizeText } from '../../src/text.ts';
import { computeDistance } from '../../src/search/area.ts';
import type { Tables } from '../../src/tables.ts';
import { getListingIds, type ListingSeed, openSearch } from './harness.ts';

const { add, db, pool, serve } = await openSearch();
const { post, get } = await serve();
/** Server that expects many matches, as in a large table: it reads the indexes of the orders, and the newest listings. */
const { post: postToLarge } = await serve({
  db: watchDatabase(db, {
    after(text, { rows }) {
      if (!text.includes('explain (format json)')) return;
      const [row] = rows as { 'QUERY PLAN': [{ Plan: { Plans?: { 'Plan Rows': number }[] } }] }[];
      for (const plan of row?.['QUERY PLAN'][0].Plan.Plans ?? []) plan['Plan Rows'] = 1e9;
    },
  }),
});

const RATES = { UAH: 1, USD: 40, EUR: 48.3 };
await db.deleteFrom('currency_rates').execute();
await storeRates(db, [
  { date: '2026-11-20', currency: 'USD', rate: RATES.USD },
  { date: '2026-11-20', currency: 'EUR', rate: RATES.EUR },
]);

const LVIV = { latitude: 49.838, longitude: 24.023 };
const KYIV = { latitude: 50.455, longitude: 30.524 };

const searchOk = async (kind: string, body: object, send = post) => {
  const response = await send(kind, body);
  assert.equal(response.status, 200, `${JSON.stringify(body)} ${JSON.stringify(response.body)}`);
  return response.body;
};

const suggestOk = async (q: string, limit = 20) => {
  const { status, body } = await get('/search/suggest', { q, limit });
  assert.equal(status, 200, JSON.stringify(body));
  return body.items;
};

/** Returns the listing IDs of each page of a search. Calls `afterPage` after each page. */
async function readAllPages(body: object, send = post, afterPage?: () => Promise<unknown>) {
  const pages: number[][] = [];
  let cursor: string | undefined;
  do {
    const page = await searchOk('browse', { ...body, ...(cursor && { cursor }) }, send);
    pages.push(getListingIds(page));
    cursor = page.next_cursor ?? undefined;
    await afterPage?.();
  } while (cursor !== undefined);
  return pages;
}

/** Adds named listings, and returns a function that gives the names of the listings in a response, oldest first. */
async function addNamed<Name extends string>(seeds: Record<Name, ListingSeed>) {
  const names = Object.keys(seeds) as Name[];
  const ids = await add(...names.map((name) => seeds[name]));
  const idsByName = Object.fromEntries(names.map((name, index) => [name, ids[index]]));
  const listNames = (body: Parameters<typeof getListingIds>[0]) =>
    getListingIds(body)
      .toSorted((a, b) => a - b)
      .map((id) => names[ids.indexOf(id)]);
  return { ids, idsByName: idsByName as Record<Name, number>, listNames };
}

const addImages = async (listingId: number, hashes: (string | null)[]) => {
  for (const [position, sha256] of hashes.entries()) {
    await pool.query(
      `insert into images (sha256, media_type, width, height, bytes)
       select $1, 'image/png', 40, 30, 99 where $1::text is not null on conflict do nothing`,
      [sha256],
    );
    await pool.query(
      'insert into listing_images (listing_id, position, sha256, error) values ($1, $2, $3, $4)',
      [listingId, position, sha256, sha256 === null ? 'broken' : null],
    );
  }
  await pool.query('update listing_index set image_count = $2 where id = $1', [
    listingId,
    hashes.filter((hash) => hash !== null).length,
  ]);
};

suite('Orders', () => {
  const seeds = Array.from({ length: 40 }, (_, index): ListingSeed => {
    const position = {
      latitude: LVIV.latitude + ((index * 7) % 11) / 100,
      longitude: LVIV.longitude + ((index * 5) % 13) / 100,
    };
    return {
      source_slug: 'orders',
      archived: index % 9 === 0,
      ...(index % 5 === 1 ? {} : { deal_type: DEAL_TYPES[index % DEAL_TYPES.length] ?? 'sale' }),
      ...(index % 4 === 0 ? { place: { city: 'Львів' } } : position),
      ...(index % 5 === 0
        ? {}
        : {
            price: (index % 6) * 1000,
            currency: ['UAH', 'USD', 'EUR', 'XAU', null][index % 7] ?? 'UAH',
          }),
      ...(index % 3 === 0 ? {} : { area_total: [20, 50, 80, 100][index % 4] ?? 20 }),
      ...(index % 8 === 1 ? { price_per_m2: 31.37 * (index % 3) } : {}),
      // The last group has live and archived members.
      ...(index % 10 < 3 ? { duplicate_group: 9_000_000 + (index % 10) } : {}),
    };
  });
  type Order = {
    value: (seed: ListingSeed, currency: number) => number | null;
    isAscending: boolean;
  };

  const convert = (amount: number | undefined, seed: ListingSeed, rate: number) => {
    const listingRate = RATES[seed.currency as keyof typeof RATES] as number | undefined;
    return amount === undefined || listingRate === undefined
      ? null
      : amount * (listingRate === rate ? 1 : listingRate / rate);
  };
  const getPrice = (seed: ListingSeed, rate: number) => convert(seed.price, seed, rate);
  const getPricePerM2 = (seed: ListingSeed, rate: number) =>
    convert(
      seed.price_per_m2 ??
        (seed.price !== undefined && seed.area_total !== undefined
          ? seed.price / seed.area_total
          : undefined),
      seed,
      rate,
    );
  const getDistance = ({ latitude, longitude }: ListingSeed) =>
    latitude === undefined || longitude === undefined
      ? computeDistance(LVIV, LVIV)
      : computeDistance({ latitude, longitude }, LVIV);
  const ORDERS: Record<string, Order> = {
    price_asc: { value: getPrice, isAscending: true },
    price_desc: { value: getPrice, isAscending: false },
    price_per_m2_asc: { value: getPricePerM2, isAscending: true },
    price_per_m2_desc: { value: getPricePerM2, isAscending: false },
    area_asc: { value: ({ area_total }) => area_total ?? null, isAscending: true },
    area_desc: { value: ({ area_total }) => area_total ?? null, isAscending: false },
    distance: { value: getDistance, isAscending: true },
    newest: { value: () => 0, isAscending: false },
  };

  function compareListings(
    a: [number, number | null],
    b: [number, number | null],
    isAscending: boolean,
  ) {
    if (a[1] === null || b[1] === null)
      return Number(a[1] === null) - Number(b[1] === null) || b[0] - a[0];
    return isAscending ? a[1] - b[1] || a[0] - b[0] : b[1] - a[1] || b[0] - a[0];
  }

  const arbitrarySearch = fc.record({
    sort: fc.constantFrom(...Object.keys(ORDERS)),
    currency: fc.constantFrom('UAH', 'USD', 'EUR'),
    deal_type: fc.constantFrom(undefined, ...DEAL_TYPES, ['rent', 'sale', 'rent']),
    limit: fc.constantFrom(4, 13, 100),
    fold_duplicates: fc.boolean(),
    include_archived: fc.boolean(),
    areMany: fc.boolean(),
    areAdded: fc.boolean(),
  });

  test('The pages of every order are the sorted whole, also while listings are added', async () => {
    const ids = await add(...seeds);
    const seedsById = new Map(ids.map((id, index) => [id, seeds[index] ?? {}]));
    await fc.assert(
      fc.asyncProperty(arbitrarySearch, async ({ areMany, areAdded, ...search }) => {
        const { sort, currency, deal_type, fold_duplicates, include_archived } = search;
        const order = ORDERS[sort];
        assert.ok(order);
        const expected = [...seedsById]
          .filter(([, { archived }]) => include_archived || archived !== true)
          .filter(
            ([, seed]) =>
              deal_type === undefined || [deal_type].flat().includes(seed.deal_type ?? ''),
          )
          .map(([id, seed]): [number, number | null] => [id, order.value(seed, RATES[currency])])
          .toSorted((a, b) => compareListings(a, b, order.isAscending))
          .map(([id]) => id)
          .filter((id, index, all) => {
            const group = seedsById.get(id)?.duplicate_group;
            const isFirst = (other: number) => seedsById.get(other)?.duplicate_group === group;
            return !fold_duplicates || group === undefined || all.findIndex(isFirst) === index;
          });
        const addedIds: number[] = [];
        const addListing = async () => {
          if (!areAdded || addedIds.length === 3) return;
          const price = 1500 * addedIds.length;
          addedIds.push(...(await add({ source_slug: 'orders', price, area_total: 60, ...LVIV })));
        };
        const near = { near: { ...LVIV, radius_m: 50_000 } };
        const request = { source_slug: 'orders', ...search, ...near };
        const pages = await readAllPages(request, areMany ? postToLarge : post, addListing);
        const foundIds = pages.flat();
        assert.deepEqual(
          foundIds.filter((id) => !addedIds.includes(id)),
          expected,
        );
        assert.equal(new Set(foundIds).size, foundIds.length);
        await db
          .deleteFrom('property_listings')
          .where('id', 'in', [0, ...addedIds])
          .execute();
      }),
      { numRuns: 30 },
    );
  });

  test('A page has the total, converted prices, distances and the members of each group', async () => {
    const filters = { source_slug: 'orders', near: { ...LVIV, radius_m: 50_000 } };
    const body = await searchOk('browse', {
      ...filters,
      sort: 'distance',
      currency: 'USD',
      limit: 100,
    });
    assert.deepEqual(
      [body.total, body.currency, body.next_cursor],
      [{ value: 35, relation: 'eq' }, 'USD', null],
    );
    const distances = body.items.map(({ distance_m }: { distance_m: number }) => distance_m);
    assert.equal(distances[0], 0);
    assert.ok(distances.every((distance: number) => Number.isInteger(distance)));
    const folded = await searchOk('browse', { ...filters, fold_duplicates: true, limit: 100 });
    const groups = folded.items.filter(
      ({ duplicates }: { duplicates: number[] }) => duplicates.length > 0,
    );
    assert.equal(groups.length, 3);
    for (const { listing, duplicates } of groups) {
      const { body: whole } = await post('browse', { ...filters, limit: 100 });
      assert.ok(duplicates.every((id: number) => getListingIds(whole).includes(id)));
      assert.ok(!duplicates.includes(listing.listing_id));
    }
    assert.ok(!('duplicates' in body.items[0]) && !('distance_m' in folded.items[0]));
    assert.ok(Math.abs(computeDistance(LVIV, KYIV) - 468_500) < 2000);
  });
});

test('The list of listings has the pages of browsing, with filters as query parameters', async () => {
  const seed = { source_slug: 'list', description: 'list', latitude: 49.84, longitude: 24.03 };
  const rented = { ...seed, deal_type: 'rent', features: ['balcony'] };
  const [first, second] = await add(
    { ...rented, price: 300 },
    { ...rented, price: 200 },
    { ...seed, deal_type: 'daily_rent', price: 1 },
    { ...rented, price: 100, ...KYIV },
  );
  const filters = { source_slug: 'list', deal_type: ['rent', 'sale'], features: 'balcony' };
  const area = { bbox: [23.8, 49.7, 24.2, 49.95], near: '49.84,24.03,1000', has_images: false };
  const query = { ...filters, ...area, price_max: 300, sort: 'price_asc', limit: 1 };
  const page = await get('/listings', query);
  const body = { source_slug: 'list', deal_type: 'rent', price_max: 250 };
  const { items } = await searchOk('browse', body);
  assert.deepEqual(page.body, [items[1].listing]);
  const [, link = ''] = /^<(.*)>; rel="next"$/.exec(String(page.headers['link'])) ?? [];
  const { searchParams } = new URL(link, 'http://localhost');
  const next = await get('/listings', { ...query, cursor: searchParams.get('cursor') ?? '' });
  const ids = [page, next].map(({ body: [listing] }) => listing.listing_id);
  assert.deepEqual([ids, next.headers['link']], [[second, first], undefined]);
  const cases: [query: Parameters<typeof get>[1], path: string][] = [
    [{ near: '49.84,24.03' }, 'near'],
    [{ near: '91,24.03,10' }, 'near'],
    [{ bbox: [25, 49, 24, 50] }, 'bbox/0'],
    [{ bbox: '23,49,25,50' }, 'bbox'],
    [{ sort: 'distance' }, 'sort'],
    [{ limit: 101 }, 'limit'],
    [{ cursor: 'nonsense' }, 'cursor'],
    [{ property_type: 'замок' }, 'property_type'],
  ];
  for (const [invalid, path] of cases) {
    const rejection = await get('/listings', invalid);
    assert.deepEqual(
      [rejection.status, rejection.body.errors?.[0].path],
      [422, `querystring/${path}`],
    );
  }
});

/** Checks that all kinds of searches find the named listings with the filters. */
async function checkFilters(
  { ids, listNames }: { ids: number[]; listNames: (body: never) => unknown },
  description: string,
  cases: [filters: object, names: string[]][],
) {
  for (const [filters, names] of cases) {
    const scope = { first_seen_since: '2020-01-01T00:00:00Z', ...filters };
    const message = JSON.stringify(filters);
    const bodies = [
      await searchOk('browse', { source_slug: description, limit: 100, ...scope }),
      await searchOk('browse', { source_slug: description, limit: 100, ...scope }, postToLarge),
      await searchOk('fulltext', { query: description, limit: 100, ...scope }),
      await searchOk('matches', { ids, ...scope }),
    ];
    for (const body of bodies) assert.deepEqual(listNames(body as never), names, message);
    assert.equal(bodies[0].total.value, names.length, message);
  }
}

test('Each filter of browsing leaves out the other listings in every search', async () => {
  const base = { source_slug: 'vidbir', description: 'vidbir', created_at: '2026-01-01T00:00:00Z' };
  const listings = await addNamed({
    ground: { ...base, floor: 1, floors_total: 5, features: ['balcony', 'elevator'] },
    middle: { ...base, floor: 3, floors_total: 5, features: ['balcony'] },
    top: { ...base, floor: 5, floors_total: 5, features: ['o\'neill % \\ " {}'] },
    onlyFloor: { ...base, floor: 1, floors_total: 1 },
    basement: { ...base, floor: -1, floors_total: 3 },
    zero: { ...base, floor: 0, floors_total: 3 },
    aboveTop: { ...base, floor: 7, floors_total: 5 },
    unknownHeight: { ...base, floor: 2 },
    unknownFloor: { ...base, floors_total: 9 },
    pictured: { ...base, created_at: '2026-02-01T00:00:00Z' },
    brokenImage: { ...base, created_at: '2026-02-01T00:00:00.001Z' },
    hidden: { ...base, floor: 2, floors_total: 9, archived: true },
  });
  const all =
    'ground middle top onlyFloor basement zero aboveTop unknownHeight unknownFloor pictured brokenImage'.split(
      ' ',
    );
  await addImages(listings.idsByName.pictured, [null, 'a1'.repeat(32), 'b2'.repeat(32)]);
  await addImages(listings.idsByName.brokenImage, [null]);
  await checkFilters(listings, 'vidbir', [
    [{}, all],
    [{ include_archived: true }, [...all, 'hidden']],
    [{ not_first_floor: true }, ['middle', 'top', 'aboveTop', 'unknownHeight']],
    [{ not_last_floor: true }, ['ground', 'middle', 'basement', 'zero']],
    [{ not_first_floor: true, not_last_floor: true }, ['middle']],
    [{ not_first_floor: false, not_last_floor: false }, all],
    [{ not_first_floor: true, include_archived: true, not_last_floor: true }, ['middle', 'hidden']],
    [{ floor_min: 3 }, ['middle', 'top', 'aboveTop']],
    [{ floor_max: 0 }, ['basement', 'zero']],
    [{ floor_min: -1, floor_max: 1 }, ['ground', 'onlyFloor', 'basement', 'zero']],
    [{ features: ['balcony'] }, ['ground', 'middle']],
    [{ features: [' ELEVATOR ', 'balcony', 'balcony'] }, ['ground']],
    [{ features: ['O\'Neill % \\ " {}'] }, ['top']],
    [{ features: ['balc%'] }, []],
    [{ has_images: true }, ['pictured']],
    [{ has_images: false }, all.filter((name) => name !== 'pictured')],
    [{ first_seen_since: '2026-02-01T00:00:00Z' }, ['pictured', 'brokenImage']],
    [{ first_seen_since: '2026-02-01T02:00:00+02:00', has_images: false }, ['brokenImage']],
    [{ first_seen_since: '2026-02-01T00:00:00.001Z' }, ['brokenImage']],
    [{ first_seen_since: '2026-01-31T23:59:60Z' }, ['pictured', 'brokenImage']],
    [{ first_seen_since: '9999-12-31T23:59:59-23:59' }, []],
    [{ first_seen_since: '0000-01-01T00:00:00Z' }, all],
  ]);
});

test('A fall of the price is the last change in one currency', async () => {
  const base = { source_slug: 'znyzhka', description: 'znyzhka', price: 100, currency: 'UAH' };
  const listings = await addNamed({
    same: base,
    fell: base,
    rose: base,
    roseAgain: base,
    fellToCurrency: base,
    fellAfterCurrency: base,
    lost: base,
    gained: { ...base, price: 5, currency: null },
    hidden: { ...base, archived: true },
  });
  const { idsByName } = listings;
  const set = (name: keyof typeof idsByName, state: object) =>
    db.updateTable('property_listings').set(state).where('id', '=', idsByName[name]).execute();
  await set('fell', { price: 90 });
  await set('fell', { title: 'Нова назва', search_text: 'znyzhka' });
  await set('rose', { price: 110 });
  await set('roseAgain', { price: 80 });
  await set('roseAgain', { price: 95 });
  await set('fellToCurrency', { price: 90 });
  await set('fellToCurrency', { price: 50, currency: 'USD' });
  await set('fellAfterCurrency', { price: 50, currency: 'USD' });
  await set('fellAfterCurrency', { price: 40 });
  await set('lost', { price: null });
  await set('gained', { price: 4, currency: 'UAH' });
  await set('hidden', { price: 1 });
  const { items } = await searchOk('browse', { source_slug: 'znyzhka', include_archived: true });
  const before = new Map<number, { price: number; currency: string; changed_at: string } | null>(
    items.map(({ listing }: { listing: { listing_id: number; previous_price: never } }) => [
      listing.listing_id,
      listing.previous_price,
    ]),
  );
  const getAmount = (name: keyof typeof idsByName) => {
    const previous = before.get(idsByName[name]);
    return previous && [previous.price, previous.currency];
  };
  assert.deepEqual((Object.keys(idsByName) as (keyof typeof idsByName)[]).map(getAmount), [
    null,
    [100, 'UAH'],
    [100, 'UAH'],
    [80, 'UAH'],
    null,
    [50, 'USD'],
    [100, 'UAH'],
    null,
    [100, 'UAH'],
  ]);
  const changedAt = before.get(idsByName.fell)?.changed_at ?? '';
  const later = new Date(Date.parse(changedAt) + 1).toISOString();
  await checkFilters(listings, 'znyzhka', [
    [{ price_dropped_since: '2020-01-01T00:00:00Z' }, ['fell', 'fellAfterCurrency']],
    [{ price_dropped_since: changedAt }, ['fell', 'fellAfterCurrency']],
    [
      { price_dropped_since: '2020-01-01T00:00:00Z', include_archived: true },
      ['fell', 'fellAfterCurrency', 'hidden'],
    ],
    [{ price_dropped_since: '2999-01-01T00:00:00Z' }, []],
  ]);
  const afterFall = await searchOk('browse', {
    source_slug: 'znyzhka',
    price_dropped_since: later,
  });
  assert.ok(!getListingIds(afterFall).includes(idsByName.fell));
});

test('Areas find coordinates, and listings without them at their district or city', async () => {
  const base = { source_slug: 'mistse', description: 'mistse' };
  const listings = await addNamed({
    lviv: { ...base, place: { city: 'Львів' } },
    sykhiv: { ...base, place: { city: 'Львів', district: 'Сихів' } },
    exact: { ...base, latitude: 49.84, longitude: 24.03 },
    movedAway: { ...base, ...KYIV, place: { city: 'Львів' } },
    kyiv: { ...base, place: { city: 'Київ' } },
    region: { ...base, place: { city: 'с. Нетутешнє', address: 'Львівська область' } },
    unknown: { ...base, place: { city: 'Нетутешнє' } },
    nowhere: base,
    onlyLatitude: { ...base, latitude: 49.84, place: { city: 'Львів' } },
  });
  const lvivBox = [23.8, 49.7, 24.2, 49.95];
  const point = { ...LVIV, radius_m: 1 };
  await checkFilters(listings, 'mistse', [
    [{ bbox: lvivBox }, ['lviv', 'sykhiv', 'exact', 'onlyLatitude']],
    [
      { bbox: [-180, -90, 180, 90] },
      ['lviv', 'sykhiv', 'exact', 'movedAway', 'kyiv', 'onlyLatitude'],
    ],
    [{ bbox: [24.03, 49.84, 24.03, 49.84] }, ['exact']],
    [{ bbox: lvivBox.with(1, 49.83) }, ['lviv', 'exact', 'onlyLatitude']],
    [{ near: point }, ['lviv', 'onlyLatitude']],
    [{ near: { ...LVIV, radius_m: 1000 } }, ['lviv', 'exact', 'onlyLatitude']],
    [{ near: { ...LVIV, radius_m: 7000 } }, ['lviv', 'sykhiv', 'exact', 'onlyLatitude']],
    [{ near: { ...KYIV, radius_m: 0.001 } }, ['movedAway', 'kyiv']],
    [{ near: { ...LVIV, radius_m: 7000 }, bbox: lvivBox.with(3, 49.82) }, ['sykhiv']],
    [{ near: { latitude: 90, longitude: 0, radius_m: 200_000 } }, []],
    [{ near: { latitude: 0, longitude: 180, radius_m: 200_000 } }, []],
    [{ city: ['Lviv', 'Київ'], near: { ...KYIV, radius_m: 1000 } }, ['movedAway', 'kyiv']],
  ]);
  const body = await searchOk('browse', {
    source_slug: 'mistse',
    near: { ...LVIV, radius_m: 7000 },
    sort: 'distance',
  });
  const sykhivDistance = Math.round(computeDistance(LVIV, { latitude: 49.795, longitude: 24.06 }));
  assert.deepEqual(
    body.items.map(({ distance_m }: { distance_m: number }) => distance_m),
    [
      0,
      0,
      Math.round(computeDistance(LVIV, { latitude: 49.84, longitude: 24.03 })),
      sykhivDistance,
    ],
  );
});

suite('Facets and points', () => {
  const scope = { first_seen_since: '2030-01-01T00:00:00Z' };
  const dealTypes = ['rent', 'sale', undefined];
  const PLACES = [
    { city: 'Львів', district: 'Сихів' },
    { city: 'Львів' },
    { city: 'Київ' },
    { city: 'Нетутешнє' },
  ];
  const seeds = Array.from({ length: 48 }, (_, index): ListingSeed => {
    const dealType = dealTypes[index % 3];
    const place = PLACES[index % 5];
    return {
      description: index % 2 === 0 ? 'парне слово' : 'слово',
      created_at: '2030-01-01T00:00:00Z',
      source_slug: index % 4 === 0 ? 'facets-a' : 'facets-b',
      archived: index % 11 === 0,
      features: ['balcony', 'parking', 'sauna'].filter((_name, bit) => (index >> bit) & 1),
      ...(dealType !== undefined && { deal_type: dealType }),
      ...(index % 7 < 2 && { property_type: index % 7 === 0 ? 'house' : 'apartment' }),
      ...(place !== undefined && { place }),
      ...(index % 6 !== 0 && { rooms: index % 4 }),
      ...(index % 5 !== 1 && {
        price: 40 * (index % 9),
        currency: ['UAH', 'USD', 'XAU'][index % 3] ?? null,
      }),
      ...(index % 5 !== 2 && { area_total: 10 * (index % 5) }),
      ...(index % 3 === 1 && { latitude: 49.8 + index / 1000, longitude: 24 + index / 1000 }),
    };
  });
  const added = add(...seeds);

  const getPriceInHryvnias = ({ price, currency }: ListingSeed) =>
    price === undefined
      ? undefined
      : price * ((RATES as Record<string, number>)[currency ?? ''] ?? NaN);

  /** Conditions of the filters, written without SQL. */
  const conditions: Record<string, (seed: ListingSeed, value: never) => boolean> = {
    deal_type: (seed, value) => seed.deal_type === value,
    property_type: (seed, value: string[]) => value.includes(seed.property_type ?? ''),
    city: (seed, value: string[]) => value.includes(seed.place?.city ?? ''),
    district: (seed, value) => seed.place?.district === value,
    region: (seed) => seed.place?.city === 'Львів',
    source_slug: (seed, value) => seed.source_slug === value,
    rooms_min: (seed, value) => (seed.rooms ?? -1) >= value,
    rooms_max: (seed, value) => (seed.rooms ?? 99) <= value,
    price_min: (seed, value) => (getPriceInHryvnias(seed) ?? -1) >= value,
    features: (seed, value: string[]) => value.every((name) => seed.features?.includes(name)),
    include_archived: () => true,
    currency: () => true,
    query: (seed, value) => seed.description?.includes(value) === true,
    has_images: (_seed, value) => value === false,
  };
  const OWN_FILTERS: Record<string, string[]> = {
    rooms: ['rooms_min', 'rooms_max'],
    price: ['price_min'],
    features: [],
  };

  const listMatches = (filters: Record<string, unknown>, ignored: string[] = []) =>
    seeds.filter(
      (seed) =>
        (filters['include_archived'] === true || seed.archived !== true) &&
        Object.entries(filters)
          .filter(([name]) => !ignored.includes(name))
          .every(([name, value]) => conditions[name]?.(seed, value as never)),
    );

  const VALUES: Record<string, (seed: ListingSeed) => (string | number | boolean | undefined)[]> = {
    deal_type: ({ deal_type }) => [deal_type],
    property_type: ({ property_type }) => [property_type],
    city: ({ place }) => [place?.city === 'Нетутешнє' ? 'нетутешнє' : place?.city],
    district: ({ place }) => [
      ...(place?.district === undefined ? [] : [place.district, 'Сихівський']),
      ...(place?.city === 'Львів' ? ['Львівський район'] : []),
    ],
    region: ({ place }) => [place?.city === 'Львів' ? 'Львівська область' : undefined],
    source_slug: ({ source_slug }) => [source_slug],
    rooms: ({ rooms }) => [rooms],
    features: ({ features = [] }) => features,
    has_images: () => [false],
  };

  const arbitraryFilters = fc.record(
    {
      deal_type: fc.constantFrom('rent', 'sale'),
      property_type: fc.constantFrom(['house'], ['house', 'apartment']),
      city: fc.constantFrom(['Львів'], ['Київ', 'Львів'], ['Нетутешнє']),
      district: fc.constant('Сихів'),
      region: fc.constant('Львівська область'),
      source_slug: fc.constantFrom('facets-a', 'facets-b'),
      rooms_min: fc.constantFrom(0, 1, 2),
      rooms_max: fc.constantFrom(2, 3),
      price_min: fc.constantFrom(0, 80, 3200),
      features: fc.constantFrom(['balcony'], ['balcony', 'sauna']),
      has_images: fc.boolean(),
      include_archived: fc.boolean(),
      currency: fc.constant('UAH'),
      query: fc.constantFrom('парне', 'слово'),
    },
    { requiredKeys: ['currency'] },
  );

  const sumCounts = (items: { count: number }[]) =>
    items.reduce((sum, { count }) => sum + count, 0);

  test('Each facet counts the matches of all filters except its own', async () => {
    await added;
    await fc.assert(
      fc.asyncProperty(arbitraryFilters, fc.boolean(), async (filters, isLarge) => {
        const send = isLarge ? postToLarge : post;
        const body = await searchOk('facets', { ...scope, ...filters }, send);
        assert.deepEqual(body.total, { value: listMatches(filters).length, relation: 'eq' });
        for (const [facet, getValues] of Object.entries(VALUES)) {
          const counts = new Map<unknown, number>();
          for (const seed of listMatches(filters, OWN_FILTERS[facet] ?? [facet])) {
            for (const value of getValues(seed)) {
              if (value !== undefined) counts.set(value, (counts.get(value) ?? 0) + 1);
            }
          }
          const shown = body.facets[facet].map((item: { value: string; count: number }) => [
            item.value,
            item.count,
          ]);
          assert.deepEqual(new Map(shown), counts, facet);
        }
        assert.equal(body.relation, 'eq');
        const facets = ['price', 'rooms'];
        const few = await searchOk('facets', { ...scope, ...filters, facets }, send);
        assert.deepEqual(few.facets, { rooms: body.facets.rooms, price: body.facets.price });
        assert.deepEqual(few.total, body.total);
        const priced = listMatches(filters, ['price_min']).map(getPriceInHryvnias);
        const prices = priced.filter((price) => price !== undefined && !Number.isNaN(price));
        const { buckets } = body.facets.price;
        assert.equal(sumCounts(buckets), prices.length);
        for (const { from, to, count } of buckets) {
          assert.equal(prices.filter((price) => price! >= from && price! < to).length, count);
        }
        for (const [index, { from }] of buckets.entries()) {
          if (index > 0) assert.equal(from, buckets[index - 1].to);
        }
      }),
      { numRuns: 25 },
    );
  });

  test('The values of facets are filters that find what they count', async () => {
    await added;
    const { facets } = await searchOk('facets', scope);
    const filters = ['city', 'district', 'region', 'deal_type', 'source_slug', 'property_type'];
    for (const name of [...filters, 'has_images', 'rooms']) {
      for (const { value, count } of facets[name]) {
        const filter =
          name === 'rooms' ? { rooms_min: value, rooms_max: value } : { [name]: value };
        const { total } = await searchOk('browse', { ...scope, ...filter, limit: 1 });
        assert.equal(total.value, count, `${name} ${value}`);
      }
    }
    const sykhiv = facets.district.find(({ value }: { value: string }) => value === 'Сихів');
    assert.deepEqual([sykhiv.place_id, sykhiv.region], [1080, 'Львівська область']);
    const unknownCity = facets.city.find(({ value }: { value: string }) => value === 'нетутешнє');
    assert.ok(!('place_id' in unknownCity));
    const empty = await searchOk('facets', { ...scope, query: '—' });
    assert.equal(empty.total.value, 0);
    assert.deepEqual([empty.facets.city, empty.facets.price.buckets], [[], []]);
  });

  test('Facets have unknown names as written, and each of several places of one name', async () => {
    const source = { source_slug: 'places' };
    const { listNames } = await addNamed({
      village: { ...source, place: { city: 'Вигадане', address: 'Львівська область' } },
      quarter: { ...source, place: { city: 'Львів', district: 'Вигаданий' } },
      raion: { ...source, place: { city: 'Львів', district: 'Львівський район' } },
      lviv: { ...source, place: { city: 'Львів', district: 'Шевченківський' } },
      poltava: { ...source, place: { city: 'Полтава', district: 'Шевченківський' } },
    });
    const { facets } = await searchOk('facets', source);
    const listShown = (name: string, values = facets[name]) =>
      values
        .map((item: { value: string; city?: string; count: number }) =>
          [item.value, item.city, item.count].filter(Boolean).join(' '),
        )
        .toSorted();
    assert.deepEqual(listShown('city'), ['Львів 3', 'Полтава 1', 'вигадане 1']);
    assert.deepEqual(listShown('district'), [
      'Львівський район 3',
      'Полтавський район 1',
      'Шевченківський Львів 1',
      'Шевченківський Полтава 1',
      'вигаданий 1',
    ]);
    assert.deepEqual(listShown('region'), ['Львівська область 4', 'Полтавська область 1']);
    for (const facet of ['city', 'district', 'region']) {
      for (const { value, place_id, count } of facets[facet]) {
        const filter = place_id === undefined ? { [facet]: [value] } : { place_ids: [place_id] };
        for (const send of [post, postToLarge]) {
          const { total } = await searchOk('browse', { ...source, ...filter }, send);
          assert.equal(total.value, count, value);
        }
      }
    }
    // Place IDs are alternatives. Only a facet that has one of them ignores them.
    const place_ids = [1089, 1186];
    const found = await searchOk('browse', { ...source, place_ids });
    assert.deepEqual(listNames(found), ['lviv', 'poltava']);
    const narrowed = (await searchOk('facets', { ...source, place_ids })).facets;
    assert.deepEqual(narrowed.district, facets.district);
    assert.deepEqual(listShown('city', narrowed.city), ['Львів 1', 'Полтава 1']);
    const items = await suggestOk('Шевченківський');
    const suggestedIds = new Set(items.map((item: { place_id: number }) => item.place_id));
    assert.ok(place_ids.every((id) => suggestedIds.has(id)));
    assert.equal((await searchOk('browse', { place_ids: [2 ** 31 - 1] })).total.value, 0);
    for (const wrong of [[], [0], ['1'], 5, Array.from({ length: 51 }, (_, index) => index + 1)]) {
      const { status, body } = await post('browse', { place_ids: wrong });
      assert.equal(status, 422);
      assert.ok(body.errors[0].path.startsWith('body/place_ids'));
    }
  });

  test('Clusters have every listing in the box once, at any zoom', async () => {
    const ids = await added;
    const box = [22, 44, 40.5, 52.5] as const;
    const small = [23.9, 49.7, 24.1, 49.9] as const;
    const cases = [
      [0, box],
      [6, box],
      [12, small],
      [14, small],
    ] as const;
    await fc.assert(
      fc.asyncProperty(
        arbitraryFilters,
        fc.constantFrom(...cases),
        fc.boolean(),
        async (filters, [zoom, bbox], isLarge) => {
          const search = { ...scope, ...filters, bbox };
          const body = await searchOk('points', { ...search, zoom }, isLarge ? postToLarge : post);
          const expected = listMatches(filters).filter(
            ({ latitude, place }) =>
              latitude !== undefined ||
              place?.city === 'Львів' ||
              (place?.city === 'Київ' && bbox === box),
          );
          assert.deepEqual(body.total, { value: expected.length, relation: 'eq' });
          assert.equal(sumCounts(body.points), expected.length);
          const prices = expected
            .map(getPriceInHryvnias)
            .filter((price) => price !== undefined && !Number.isNaN(price));
          const lowest = body.points.flatMap(
            ({ price_min }: { price_min: number | null }) => price_min ?? [],
          );
          assert.equal(Math.min(Infinity, ...lowest), Math.min(Infinity, ...prices.map(Number)));
          const unlocated = expected.filter((seed) => seed.latitude === undefined);
          const approximate = body.points.filter(
            (point: { approximate: boolean }) => point.approximate,
          );
          assert.ok(sumCounts(approximate) <= unlocated.length);
          const [west, south, east, north] = bbox;
          for (const point of body.points) {
            assert.equal('listing_id' in point, point.count === 1);
            if (point.count === 1) {
              const seed = seeds[ids.indexOf(point.listing_id)];
              assert.ok(seed && expected.includes(seed));
              assert.equal(point.approximate, unlocated.includes(seed));
            }
            assert.ok(point.latitude >= south && point.latitude <= north);
            assert.ok(point.longitude >= west && point.longitude <= east);
          }
        },
      ),
      { numRuns: 25 },
    );
    const world = [-180, -90, 180, 90];
    const { points } = await searchOk('points', { ...scope, bbox: world, zoom: 0 });
    assert.deepEqual([points.length, points[0].approximate], [1, false]);
    for (const zoom of [5, 20]) {
      const { status, body } = await post('points', { bbox: world, zoom });
      assert.deepEqual([status, body.errors?.[0].path], [422, 'body/zoom']);
    }
  });
});

test('Suggestions are filters whose names begin with a text in any language', async () => {
  const suggestTexts = async (text: string, limit = 20) => {
    const items = await suggestOk(text, limit);
    return items.map((item: { kind: string; text: string }) => `${item.kind}: ${item.text}`);
  };
  const lviv = ['city: Львів, Львівська область', 'region: Львівська область'];
  const cases: [text: string, first: string[]][] = [
    ['Льв', lviv],
    ['льво', lviv],
    ['lv', lviv],
    ['LVIV', lviv],
    ['Lwó', [lviv[0] ?? '']],
    ['Сих', ['district: Сихівський, Львів', 'district: Сихів, Львів']],
    ['сыхов', ['district: Сихів, Львів']],
    ['Sykhiv', ['district: Сихів, Львів']],
    ['м. Льв', lviv.slice(0, 1)],
    ['г. Льво', lviv.slice(0, 1)],
    ['с.Лисини', ['city: Лисиничі, Львівська область']],
    ['обл. Льв', lviv.slice(1)],
    ['р-н Сих', ['district: Сихівський, Львів', 'district: Сихів, Львів']],
    ['кварт', ['property_type: apartment']],
    ['kvart', ['property_type: apartment']],
    ['flat', ['property_type: apartment']],
    ['Киє', ['city: Київ']],
    ['Одеса', ['city: Одеса, Одеська область']],
    ['Odess', ['city: Одеса, Одеська область']],
  ];
  for (const [text, first] of cases) {
    const texts = await suggestTexts(text);
    assert.ok(
      first.every((name) => texts.slice(0, 4).includes(name)),
      `${text}: ${texts.join('; ')}`,
    );
  }
  assert.equal((await suggestTexts('Сих'))[0]?.startsWith('district: Сих'), true);
  assert.deepEqual(
    (await suggestTexts('м. Сих')).filter((name: string) => name.startsWith('district')),
    [],
  );
  assert.equal((await suggestTexts('а', 3)).length, 3);
  for (const text of ['?', ' ', '%', '_', "'", '—', 'ъъъъ', '🏠', '\u00AD'])
    assert.deepEqual(await suggestTexts(text), [], text);
  // The value of each suggestion finds its place.
  assert.deepEqual(await suggestOk('flat'), [
    { text: 'apartment', kind: 'property_type', value: 'apartment' },
  ]);
  const items = await suggestOk('Микола');
  const [seed] = await addNamed({
    small: { place: { city: 'Миколаїв', address: 'Львівська область' } },
  }).then(({ ids }) => ids);
  const small = items.find(({ place_id }: { place_id: number }) => place_id === 700568);
  const found = await searchOk('browse', { city: small.value, limit: 100 });
  assert.ok(getListingIds(found).includes(seed ?? 0), small.value);
});

test('A listing has its cover, numbers of images and duplicates, and its price per m² in the currency of the request', async () => {
  const group = { duplicate_group: 9_100_000 };
  const { idsByName } = await addNamed({
    dollars: { ...group, source_slug: 'hits', price: 1000, currency: 'USD', area_total: 30 },
    hryvnias: { ...group, source_slug: 'hits', price: 1000, area_total: 30 },
    bare: { source_slug: 'hits' },
    hidden: { ...group, source_slug: 'hits', archived: true },
  });
  await addImages(idsByName.dollars, [null, 'c3'.repeat(32), 'd4'.repeat(32)]);
  await addImages(idsByName.hryvnias, [null]);
  const expected = [
    [null, 0, 0, null, null],
    [null, 0, 1, 33.33, null],
    [{ sha256: 'c3'.repeat(32), width: 40, height: 30 }, 2, 1, 33.33, 1333.2],
  ];
  const requests: [string, object][] = [
    ['browse', { source_slug: 'hits', currency: 'UAH' }],
    ['matches', { ids: Object.values(idsByName).toReversed(), currency: 'UAH' }],
  ];
  for (const [kind, request] of requests) {
    const { items } = await searchOk(kind, request);
    const facts = items.map(
      ({ listing }: { listing: Record<string, { amount: number } | null> }) => [
        listing['cover'],
        listing['image_count'],
        listing['duplicate_count'],
        listing['price_per_m2'],
        listing['price_per_m2_converted']?.amount ?? null,
      ],
    );
    assert.deepEqual(facts, expected, kind);
  }
});

test('Invalid parameters are rejected with their path, and hostile texts find nothing', async () => {
  const box = [23, 49, 25, 50];
  const point = { latitude: 49, longitude: 24, radius_m: 100 };
  const many = (count: number) => Array.from({ length: count }, (_, index) => `a${index}`);
  const filters: [object | string, string][] = [
    [{ floor_min: -21 }, 'body/floor_min'],
    [{ floor_max: 1001 }, 'body/floor_max'],
    [{ floor_min: 1.5 }, 'body/floor_min'],
    [{ floor_min: 3, floor_max: 2 }, 'body/floor_min'],
    [{ not_first_floor: 'yes' }, 'body/not_first_floor'],
    [{ not_last_floor: 1 }, 'body/not_last_floor'],
    [{ has_images: null }, 'body/has_images'],
    [{ features: [] }, 'body/features'],
    [{ features: 'balcony' }, 'body/features'],
    [{ features: many(21) }, 'body/features'],
    [{ features: [''] }, 'body/features/0'],
    [{ features: ['a'.repeat(101)] }, 'body/features/0'],
    [{ features: ['a', 'a\0'] }, 'body/features/1'],
    [{ features: ['\ud800'] }, 'body/features/0'],
    [{ price_dropped_since: 'yesterday' }, 'body/price_dropped_since'],
    [{ price_dropped_since: '2026-02-30T00:00:00Z' }, 'body/price_dropped_since'],
    [{ first_seen_since: '2026-01-01' }, 'body/first_seen_since'],
    [{ first_seen_since: 5 }, 'body/first_seen_since'],
    [{ deal_type: 'swap' }, 'body/deal_type'],
    [{ deal_type: ['rent', 'swap'] }, 'body/deal_type/1'],
    [{ city: many(51) }, 'body/city'],
    [{ source_slug: many(51) }, 'body/source_slug'],
    [{ source_slug: ["a'; drop table listing_index; --"] }, 'body/source_slug/0'],
    [{ city: '\udfff' }, 'body/city'],
    [{ district: 'a\0' }, 'body/district'],
    [{ near: { ...point, radius_m: 0 } }, 'body/near/radius_m'],
    [{ near: { ...point, radius_m: 200_001 } }, 'body/near/radius_m'],
    [{ near: { ...point, latitude: 90.1 } }, 'body/near/latitude'],
    [{ near: { ...point, longitude: -180.1 } }, 'body/near/longitude'],
    [{ near: { latitude: 1, longitude: 1 } }, 'body/near'],
    [{ near: { ...point, extra: 1 } }, 'body/near'],
    ['{"near":{"latitude":1e999,"longitude":1,"radius_m":1}}', 'body/near/latitude'],
    [{ bbox: box.with(1, 51) }, 'body/bbox/1'],
    [{ bbox: box.with(0, 26) }, 'body/bbox/0'],
    [{ bbox: box.with(3, 91) }, 'body/bbox/3'],
    [{ bbox: box.with(1, -91) }, 'body/bbox/1'],
    [{ bbox: box.with(2, 181) }, 'body/bbox/2'],
    [{ bbox: box.slice(1) }, 'body/bbox'],
    [{ bbox: '23,49,25,50' }, 'body/bbox'],
  ];
  const casesByKind: Record<string, [object | string, string][]> = {
    browse: [
      ...filters,
      [{ sort: 'distance' }, 'body/sort'],
      [{ sort: 'id; drop table images' }, 'body/sort'],
      [{ query: 'a' }, 'body'],
      [{ limit: 101 }, 'body/limit'],
      [{ limit: 0 }, 'body/limit'],
      [{ cursor: 'a'.repeat(513) }, 'body/cursor'],
      [{ cursor: 'nonsense' }, 'body/cursor'],
      [{ fold_duplicates: 'yes' }, 'body/fold_duplicates'],
    ],
    facets: [
      ...filters,
      [{ limit: 5 }, 'body'],
      [{ query: '' }, 'body/query'],
      [{ facets: [] }, 'body/facets'],
      [{ facets: ['total'] }, 'body/facets/0'],
      [{ facets: ['city', 'city'] }, 'body/facets'],
    ],
    points: [
      ...filters.map(([body, path]): [object | string, string] => [
        typeof body === 'string'
          ? body.replace('{', `{"bbox":${JSON.stringify(box)},"zoom":5,`)
          : { bbox: box, zoom: 5, ...body },
        path,
      ]),
      [{ zoom: 5 }, 'body'],
      [{ bbox: box }, 'body'],
      [{ bbox: box, zoom: 21 }, 'body/zoom'],
      [{ bbox: box, zoom: -1 }, 'body/zoom'],
      [{ bbox: box, zoom: 1.5 }, 'body/zoom'],
      [{ bbox: box, zoom: 20 }, 'body/zoom'],
    ],
  };
  const wrong: string[] = [];
  for (const [kind, cases] of Object.entries(casesByKind)) {
    for (const [body, path] of cases) {
      const response = await post(kind, body);
      const shown = [response.status, response.body.errors?.[0].path];
      if (String(shown) !== `422,${path}`)
        wrong.push(`${kind} ${JSON.stringify(body)}: ${String(shown)}`);
    }
  }
  for (const [query, path] of [
    [{}, 'querystring'],
    [{ q: '' }, 'querystring/q'],
    [{ q: 'a'.repeat(101) }, 'querystring/q'],
    [{ q: 'a\0' }, 'querystring/q'],
    [{ q: 'a', limit: 21 }, 'querystring/limit'],
    [{ q: 'a', city: 'a' }, 'querystring'],
  ] as const) {
    const { status, body } = await get('/search/suggest', query);
    if (status !== 422 || body.errors[0].path !== path) wrong.push(`suggest ${path}: ${status}`);
  }
  assert.deepEqual(wrong, []);
  const hostileTexts = ["'; drop table listing_index; --", '%', '\\', '{"a":1}', '$1'];
  for (const text of hostileTexts) {
    for (const name of ['city', 'district', 'region']) {
      assert.equal((await searchOk('browse', { [name]: text })).total.value, 0, text);
      assert.equal((await searchOk('facets', { [name]: [text, text] })).total.value, 0, text);
    }
    await suggestOk(text);
    await searchOk('points', { query: text, bbox: box, zoom: 5 });
  }
  await add({ source_slug: 'cursor' }, { source_slug: 'cursor' });
  const { next_cursor: cursor } = await searchOk('browse', { source_slug: 'cursor', limit: 1 });
  assert.equal(
    (await searchOk('browse', { source_slug: 'cursor', limit: 5, sort: 'newest', cursor })).items
      .length,
    1,
  );
  for (const body of [
    {},
    { source_slug: 'cursors' },
    { sort: 'area_asc' },
    { fold_duplicates: true },
    { has_images: false },
  ]) {
    const response = await post('browse', { source_slug: 'cursor', limit: 1, ...body, cursor });
    const isSame = JSON.stringify(body) === '{}';
    assert.equal(response.status, isSame ? 200 : 422);
    if (!isSame) assert.equal(response.body.errors[0].path, 'body/cursor');
  }
  // Cursors have no secret, so a client can write any position into one.
  const { search } = JSON.parse(Buffer.from(cursor, 'base64url').toString());
  for (const value of [1e300, -1e300, 0, null, 1.5]) {
    const forged = Buffer.from(JSON.stringify({ search, position: { value, id: 1 } })).toString(
      'base64url',
    );
    assert.ok(
      (await post('browse', { source_slug: 'cursor', cursor: forged })).status < 500,
      String(value),
    );
  }
});

test('Pages by price keep the rates of the first page', async () => {
  const source = { source_slug: 'rates' };
  const { idsByName } = await addNamed({
    cheap: { ...source, price: 1000 },
    dollars: { ...source, price: 30, currency: 'USD' },
    dear: { ...source, price: 1300 },
  });
  const { cheap, dollars, dear } = idsByName;
  const search = { ...source, currency: 'UAH', sort: 'price_asc', limit: 1 };
  const pages = await readAllPages(search, post, () =>
    storeRates(db, [{ date: '2026-11-21', currency: 'USD', rate: 50 }]),
  );
  assert.deepEqual(pages, [[cheap], [dollars], [dear]]);
  const newPages = await readAllPages(search);
  await db.deleteFrom('currency_rates').where('rate', '=', 50).execute();
  assert.deepEqual(newPages, [[cheap], [dear], [dollars]]);
});

test('More matches than are counted have a lower bound as total', async () => {
  // Only the index is filled: totals do not read the listings themselves.
  const firstId = 2 ** 40;
  await pool.query(
    `insert into listing_index (id, is_live, source_slug, features, latitude, longitude, created_at, words)
     select $1::bigint + number, true, 'many', '{}', case when number <= 5 then 55 else 49.8 end, 24, now(), to_tsvector('simple', 'багато')
     from generate_series(1, 30000) as number`,
    [firstId],
  );
  const search = {
    source_slug: 'many',
    bbox: [23, 49, 25, 50],
  };
  const expected = { value: 20_000, relation: 'gte' };
  for (const send of [post, postToLarge]) {
    for (const [kind, body] of [
      ['browse', search],
      ['facets', search],
      ['facets', { ...search, query: 'багато' }],
      ['points', { ...search, zoom: 8 }],
    ] as const) {
      assert.deepEqual((await searchOk(kind, body, send)).total, expected, kind);
      // Few of the many listings are in the other box.
      const few = { ...body, bbox: [23, 54, 25, 56] };
      const { total } = await searchOk(kind, few, send);
      assert.deepEqual(total, { value: 5, relation: 'eq' }, kind);
    }
  }
  const { facets, relation } = await searchOk('facets', search);
  assert.equal(relation, 'gte');
  assert.deepEqual(facets.source_slug, [{ value: 'many', count: 20_000 }]);
  const { total } = await searchOk('fulltext', { query: 'багато' });
  assert.deepEqual(total, { value: 30_000, relation: 'eq' });
  await pool.query('delete from listing_index where id > $1', [firstId]);
});

suite('The index of listings', () => {
  const INDEX_COLUMNS = `id, is_live, source_slug, deal_type, property_type, place_path, city_key, district_key, price, currency,
    price_per_m2, area_total, rooms, floor, floors_total, features, latitude, longitude, duplicate_group, created_at, words`;

  const FACT_COLUMNS = `${INDEX_COLUMNS.replace(', words', '')}, price_before, price_changed_at, image_count`;

  /** Returns the rows that differ between the index and the listings, and between the index and its facts. */
  async function listDifferences(database: Kysely<Tables>): Promise<unknown[]> {
    const [columns, facts] = [sql.raw(INDEX_COLUMNS), sql.raw(FACT_COLUMNS)];
    const { rows: factRows } = await sql`
      (select 'fact' as side, ${facts} from listing_facts except all select 'fact', ${facts} from listing_index)
      union all
      (select 'index', ${facts} from listing_index except all select 'index', ${facts} from listing_facts)`.execute(
      database,
    );
    const { rows } = await sql`
      (select 'indexed' as side, ${columns} from listing_index except all select 'indexed', ${columns} from listing_index_rows)
      union all
      (select 'listed', ${columns} from listing_index_rows except all select 'listed', ${columns} from listing_index)`.execute(
      database,
    );
    return [...rows, ...factRows];
  }

  const arbitraryState = fc.record(
    {
      price: fc.constantFrom(null, 0, 1, 100, 99_999.99),
      currency: fc.constantFrom(null, 'UAH', 'USD'),
      price_per_m2: fc.constantFrom(null, 7.5),
      area_total: fc.constantFrom(null, 0, 33.3),
      rooms: fc.constantFrom(null, 0, 11),
      floor: fc.constantFrom(null, -1, 4),
      floors_total: fc.constantFrom(null, 4),
      features: fc.constantFrom([], ['balcony'], ['balcony', 'sauna']),
      latitude: fc.constantFrom(null, 49.8),
      longitude: fc.constantFrom(null, 24),
      deal_type: fc.constantFrom(null, 'sale', 'rent'),
      property_type: fc.constantFrom(null, 'house', 'land'),
      city_key: fc.constantFrom(null, 'львів'),
      district_key: fc.constantFrom(null, 'сихів'),
      place_path: fc.constantFrom(null, [1080, 702550], [702550]),
      search_text: fc.constantFrom('одне', 'інше слово'),
      duplicate_group: fc.constantFrom(null, 5_000_001),
      archived_at: fc.constantFrom(null, '2026-01-01T00:00:00Z'),
    },
    { requiredKeys: [] },
  );

  test('Every change of a listing reaches the index', async () => {
    const seed = { source_slug: 'changes', price: 100 };
    const largest = { ...seed, price: 99_999_999_999_999, area_total: 0.01 };
    const ids = await add(largest, seed, seed, seed);
    const arbitraryStep = fc.record({
      index: fc.nat({ max: ids.length - 1 }),
      state: fc.option(arbitraryState, { nil: undefined, freq: 12 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(arbitraryStep, { minLength: 1, maxLength: 8 }), async (steps) => {
        for (const { index, state } of steps) {
          const id = ids[index] ?? 0;
          if (state === undefined) {
            await db.deleteFrom('property_listings').where('id', '=', id).execute();
            ids.splice(index, 1, ...(await add(seed)));
          } else if (Object.keys(state).length > 0) {
            await db
              .updateTable('property_listings')
              .set(state as never)
              .where('id', '=', id)
              .execute();
          }
        }
        assert.deepEqual(await listDifferences(db), []);
      }),
      { numRuns: 20 },
    );
  });

  test('A migration indexes existing listings with their images and last change of price', async () => {
    const database = await openTestDatabase<Tables>();
    const options = getMigrateOptions({ EMBEDDING_DIMENSIONS: 3 });
    const files = (await readdir(options.folder)).toSorted();
    const folder = await openFolder();
    for (const file of files.filter((name) => name < '0038')) {
      await copyFile(join(options.folder, file), join(folder, file));
    }
    await migrate(database, { ...options, folder });
    const { rows } = await database.pool
      .query<{ id: number }>(`
      insert into sources (slug) values ('old');
      `)
      .then(() =>
        database.pool.query(
          `insert into property_listings (source_slug, external_id, description, search_text, price, currency, area_total,
           rooms, floor, features, latitude, longitude, city_key, place_path, archived_at, attributes, phones)
         select 'old', number::text, 'стара', $1, number * 100, 'UAH', nullif(number % 3, 0), number, number % 5,
           array['balcony'], 49 + number / 100.0, 24, 'львів', array[702550], case when number % 4 = 0 then now() end, '{}', '{}'
         from generate_series(1, 30) as number returning id`,
          [normalizeText('стара оселя')],
        ),
      );
    const ids = rows.map(({ id }) => Number(id));
    const [fell, rose, moved, unchanged] = ids;
    for (const [id, price, currency] of [
      [fell, 500, 'UAH'],
      [fell, 60, 'UAH'],
      [rose, 900, 'UAH'],
      [moved, 250, 'UAH'],
      [moved, 10, 'USD'],
    ]) {
      await database.pool.query(
        'update property_listings set price = $2, currency = $3 where id = $1',
        [id, price, currency],
      );
    }
    await database.pool.query(`
      insert into images (sha256, media_type, width, height, bytes) values (repeat('ab', 32), 'image/png', 4, 4, 9)`);
    await database.pool.query(
      `insert into listing_images (listing_id, position, sha256, error)
       values ($1, 0, null, 'broken'), ($1, 1, repeat('ab', 32), null), ($2, 0, null, 'broken')`,
      [fell, rose],
    );
    await migrate(database, options);
    assert.deepEqual(await listDifferences(database.db), []);
    const readFacts = async () =>
      (
        await database.pool.query<Record<string, unknown>>(
          `select price_before::float8, price_changed_at is not null as is_changed, image_count
           from listing_facts where id = any($1) order by id`,
          [[fell, rose, moved, unchanged]],
        )
      ).rows.map((row) => Object.values(row));
    const facts = [
      [500, true, 1],
      [200, true, 0],
      [null, false, 0],
      [null, false, 0],
    ];
    assert.deepEqual(await readFacts(), facts);
    // An interrupted migration is repeated.
    await database.pool.query('delete from listing_index where id % 2 = 0');
    await database.pool.query('call fill_listing_index()');
    await database.pool.query('delete from listing_facts where id % 3 = 0');
    await database.pool.query('call fill_listing_facts()');
    assert.deepEqual(await listDifferences(database.db), []);
    assert.deepEqual(await readFacts(), facts);
  });
});
