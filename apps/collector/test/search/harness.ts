import { formatVector } from '@oselya/db';
import { openTestDatabase } from '@oselya/testing/database';
import { createRateLimit } from '@oselya/kit';
import type { Kysely } from 'kysely';
import { Registry } from 'prom-client';
import { getMigrateOptions } from '../../src/database.ts';
import { guardRoutes } from '../../src/access/guard.ts';
import { createMetrics } from '../../src/metrics.ts';
import type { Tables } from '../../src/tables.ts';
import { storeStartingRates } from '../../src/money/rates.ts';
import { getPlaceKeys, resolveListingPlace } from '../../src/places/listing-place.ts';
import { normalizeText } from '../../src/text.ts';
import { listingSchema } from '../../src/listing/listing.ts';
import { type SearchRouteDeps, registerSearchRoutes } from '../../src/search/routes.ts';
import { createTestServer } from '../support/pipeline.ts';

const DIMENSIONS = 3;

export type ListingSeed = Partial<{
  title: string;
  description: string;
  deal_type: string;
  property_type: string;
  city: string;
  price: number;
  /** UAH by default if there is a price. */
  currency: string | null;
  price_per_m2: number;
  rooms: number;
  area_total: number;
  floor: number;
  floors_total: number;
  features: string[];
  latitude: number;
  longitude: number;
  created_at: string;
  duplicate_group: number;
  source_slug: string;
  embedding: number[];
  embedding_model: string;
  archived: boolean;
  /** Names of a place to resolve. A listing with only a `city` is like one from before the places. */
  place: { city?: string; district?: string; address?: string };
}>;

type Parameter = string | number | boolean;

type Model = SearchRouteDeps['model'];

/** Creates a model that knows the vectors of a few texts and fails for all others. */
export function createModel(vectors: Record<string, number[]>): Model {
  return {
    embed: async (texts) => ({
      vectors: texts.map((text) => {
        const vector = vectors[text];
        if (vector === undefined) throw new Error(`The model rejected ${text}`);
        return vector;
      }),
      model: 'test-model',
      usage: { calls: 1, inputTokens: 0, outputTokens: 0 },
    }),
  };
}

/** Opens a database with functions that add listings and start servers with the search routes. */
export async function openSearch() {
  const database = await openTestDatabase<Tables>([
    getMigrateOptions({ EMBEDDING_DIMENSIONS: DIMENSIONS }),
  ]);
  const { db, pool } = database;
  await storeStartingRates(db);
  let addedCount = 0;

  /** Stores listings, and returns their IDs in the same order. */
  async function addListings(...seeds: ListingSeed[]): Promise<number[]> {
    const slugs = [...new Set(seeds.map((seed) => seed.source_slug ?? 'board'))];
    await db
      .insertInto('sources')
      .values(slugs.map((slug) => ({ slug })))
      .onConflict((conflict) => conflict.doNothing())
      .execute();
    const rows = seeds.map(({ archived, embedding, place, source_slug = 'board', ...seed }) => {
      addedCount += 1;
      const description = seed.description ?? 'оселя';
      const { city = seed.city ?? null, district = null, address = null } = place ?? {};
      const names = { city, district };
      const { columns, ...canonicalNames } = resolveListingPlace({
        ...names,
        address,
        title: null,
        description,
      });
      const storedNames = place === undefined ? names : canonicalNames;
      return {
        currency: seed.price === undefined ? null : 'UAH',
        ...seed,
        ...storedNames,
        ...getPlaceKeys(storedNames),
        ...(place !== undefined && columns),
        description,
        source_slug,
        external_id: String(addedCount),
        search_text: normalizeText([seed.title, description, city].join(' ')),
        embedding: embedding === undefined ? null : formatVector(embedding),
        embedding_model: seed.embedding_model ?? null,
        archived_at: archived === true ? '2026-01-02T03:04:05Z' : null,
        attributes: '{}',
        phones: [],
        features: seed.features ?? [],
      };
    });
    const insertedRows = await db
      .insertInto('property_listings')
      .values(rows)
      .returning('id')
      .execute();
    return insertedRows.map(({ id }) => id);
  }

  /** Starts a server with the search routes and without API keys. */
  async function serve(
    options: { db?: Kysely<Tables>; model?: SearchRouteDeps['model']; perMinute?: number } = {},
  ) {
    const { perMinute = 0, ...deps } = options;
    const registry = new Registry();
    const createLimit = (name: string) =>
      createRateLimit({ pool, table: 'rate_limits', name, perMinute });
    const app = await createTestServer();
    await app.register(async (scope) => {
      guardRoutes(scope, undefined);
      scope.addSchema(listingSchema);
      registerSearchRoutes(scope, {
        db,
        model: createModel({}),
        dimensions: DIMENSIONS,
        limits: {
          fulltext: createLimit('fulltext'),
          similar: createLimit('similar'),
          browse: createLimit('browse'),
        },
        metrics: createMetrics(registry),
        ...deps,
      });
    });
    const post = async (kind: string, body: unknown, headers: Record<string, string> = {}) => {
      const response = await app.inject({
        method: 'POST',
        url: `/search/${kind}`,
        headers: { 'content-type': 'application/json', ...headers },
        payload: typeof body === 'string' ? body : JSON.stringify(body),
      });
      return { status: response.statusCode, headers: response.headers, body: response.json() };
    };
    /** Sends a GET request. An array is a repeated query parameter. */
    const get = async (path: string, query: Record<string, Parameter | Parameter[]> = {}) => {
      const parameters = new URLSearchParams();
      for (const [name, value] of Object.entries(query)) {
        for (const one of [value].flat()) parameters.append(name, String(one));
      }
      const url = `${path}?${parameters.toString()}`;
      const response = await app.inject({ method: 'GET', url });
      return { status: response.statusCode, headers: response.headers, body: response.json() };
    };
    const listen = () => app.listen({ host: '127.0.0.1', port: 0 });
    return { registry, post, get, listen };
  }

  return { ...database, add: addListings, serve };
}

/** Returns the listing IDs of a response in order. */
export function getListingIds(body: { items: { listing: { listing_id: number } }[] }): number[] {
  return body.items.map(({ listing }) => listing.listing_id);
}

/** Returns a point on a circle. The distance from angle 0 grows with the angle up to 180 degrees. */
export const createPointAtAngle = (degrees: number) => [
  Math.cos((degrees * Math.PI) / 180),
  Math.sin((degrees * Math.PI) / 180),
  0,
];
