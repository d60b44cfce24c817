import type { Server } from '@oselya/kit';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { getSignedInUser } from '../access/guards.ts';
import type { CollectorClient } from '../collector/client.ts';
import { searchFilters } from '../collector/generated/openapi.ts';
import { forwardRequest, readJson } from '../collector/forward.ts';
import type { ImageLinks } from './images.ts';

/** Maximum number of listings in a batch: the collector's limit for `/search/matches`. */
const MAX_BATCH_SIZE = 100;

/** Paths of the collector by the mode of a search. */
const SEARCH_PATHS = {
  hybrid: '/search/hybrid',
  words: '/search/fulltext',
  meaning: '/search/similar',
};

const PARTS = ['history', 'prices', 'images', 'duplicates'] as const;

const exampleImage = {
  sha256: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
  width: 1200,
  height: 800,
  links: {
    small: '/images/9f86d081…?size=320&user=u-1&expires=1772650800&signature=…',
    large: '/images/9f86d081…?size=1024&user=u-1&expires=1772650800&signature=…',
    original: '/images/9f86d081…?user=u-1&expires=1772650800&signature=…',
  },
};
const exampleListing = { listing_id: 640, title: 'Квартира біля парку', price: 15_000 };
const exampleHits = { items: [{ listing: { ...exampleListing, cover: exampleImage } }] };
const exampleSearch = { query: 'біля парку', city: 'Львів', price_max: 15_000 };

const tags = ['listings'];
// The same permission as for the tools of the agent, which read the same listings. Contract 3.
const access = { permission: 'svc.tools.use' } as const;

/** Builds the schema of a response that the collector's OpenAPI document describes. */
const buildResponse = (path: string, example: unknown) =>
  Type.Unsafe<unknown>({
    description: `The response of \`${path}\` in the OpenAPI document of the collector.`,
    examples: [example],
  });

const idSchema = Type.String({
  pattern: String.raw`^[1-9]\d{0,15}$`,
  description: 'The ID of the listing.',
});
const currencySchema = Type.Optional(
  Type.String({
    pattern: searchFilters.currency.pattern,
    description: 'Adds prices that are converted to this ISO 4217 currency.',
  }),
);

type Cover = { sha256?: unknown; links?: object };
type Entry = Cover & { cover?: Cover | null; listing?: Entry };

/** Returns the images in a response of the collector: those of a list of images, or the covers of listings. */
function findImages(data: unknown): (Cover & { sha256: string })[] {
  const { items = [data] } = Object(data) as { items?: unknown };
  const entries = [Array.isArray(data) ? data : items].flat() as (Entry | null)[];
  return entries
    .flatMap((entry) => [Array.isArray(data) ? entry : null, entry?.cover, entry?.listing?.cover])
    .filter((image) => typeof image?.sha256 === 'string') as ReturnType<typeof findImages>;
}

/**
 * Registers `/listings`, which passes requests of signed-in users on to the collector. The collector validates them, and
 * limits the searches of each user.
 */
export function registerListingRoutes(
  app: Server,
  { collector, imageLinks }: { collector: CollectorClient; imageLinks: ImageLinks },
): void {
  /** Forwards a request, and returns the response with links of its images. */
  async function forward(
    request: FastifyRequest,
    reply: FastifyReply,
    path: string,
    body?: object,
  ): Promise<unknown> {
    const { id } = getSignedInUser(request);
    const { response, headers } = await forwardRequest(collector.forUser(id), path, { body });
    const data = await readJson(response);
    const user = { id, generation: request.generation };
    for (const image of findImages(data)) image.links = imageLinks.create(user, image.sha256);
    void reply.headers(headers);
    return data;
  }

  const searchErrors = [429, 'collector_unavailable'] as const;

  app.post(
    '/listings/search',
    {
      config: {
        access,
        errors: [...searchErrors, 'listing_not_found', 'listing_not_embedded', 'model_failed'],
      },
      schema: {
        tags,
        summary: 'Searches listings by words and meaning',
        description:
          'Beside `mode`, request and response are those of a search of the collector: `POST /api/v1/search/hybrid`, or with the mode `words` of `/fulltext`, and with `meaning` of `/similar`.',
        body: Type.Object(
          { mode: Type.Optional(Type.Enum(['hybrid', 'words', 'meaning'], { default: 'hybrid' })) },
          { additionalProperties: true, examples: [exampleSearch] },
        ),
        response: { 200: buildResponse('POST /api/v1/search/hybrid', exampleHits) },
      },
    },
    (request, reply) => {
      const { mode = 'hybrid', ...search } = request.body;
      return forward(request, reply, SEARCH_PATHS[mode], search);
    },
  );

  for (const [kind, summary, example] of [
    ['browse', 'Lists listings without words, in a chosen order', exampleHits],
    [
      'facets',
      'Counts listings by their facts',
      { facets: { city: [{ value: 'Львів', count: 7 }] } },
    ],
    [
      'points',
      'Places listings on a map',
      { points: [{ latitude: 49.84, longitude: 24.03, count: 7 }] },
    ],
  ] as const) {
    app.post(
      `/listings/${kind}`,
      {
        config: { access, errors: searchErrors },
        schema: {
          tags,
          summary,
          description: `Request and response are those of \`POST /api/v1/search/${kind}\` of the collector.`,
          body: Type.Unsafe<object>({
            type: 'object',
            examples: [{ city: 'Львів', price_max: 15_000 }],
          }),
          response: { 200: buildResponse(`POST /api/v1/search/${kind}`, example) },
        },
      },
      (request, reply) => forward(request, reply, `/search/${kind}`, request.body),
    );
  }

  app.get(
    '/listings/suggest',
    {
      config: { access, errors: searchErrors },
      schema: {
        tags,
        summary: 'Suggests places and kinds of property while a person types',
        querystring: Type.Object({
          q: Type.String({ minLength: 1, maxLength: 100 }),
          limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 20 })),
        }),
        response: {
          200: buildResponse('GET /api/v1/search/suggest', {
            items: [{ text: 'Львів', kind: 'city', place_id: 702_550 }],
          }),
        },
      },
    },
    (request, reply) => forward(request, reply, `/search/suggest${readQuery(request)}`),
  );

  app.post(
    '/listings/batch',
    {
      config: { access, errors: [429, 'collector_unavailable'] },
      schema: {
        tags,
        summary: 'Listings by their IDs',
        description: `At most ${MAX_BATCH_SIZE} listings, in the order of their IDs in the request, also archived ones. Unknown IDs are left out. A batch counts as a full-text search.`,
        body: Type.Object(
          {
            ids: Type.Array(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }), {
              minItems: 1,
              maxItems: MAX_BATCH_SIZE,
              uniqueItems: true,
            }),
            currency: currencySchema,
          },
          { additionalProperties: false, examples: [{ ids: [640, 812], currency: 'USD' }] },
        ),
        response: { 200: buildResponse('POST /api/v1/search/matches', exampleHits) },
      },
    },
    (request, reply) =>
      forward(request, reply, '/search/matches', { ...request.body, include_archived: true }),
  );

  const readConfig = { access, errors: ['listing_not_found', 'collector_unavailable'] } as const;

  app.get(
    '/listings/:id',
    {
      config: readConfig,
      schema: {
        tags,
        summary: 'A listing',
        params: Type.Object({ id: idSchema }),
        querystring: Type.Object({ currency: currencySchema }),
        response: { 200: buildResponse('GET /api/v1/listings/{id}', exampleListing) },
      },
    },
    (request, reply) =>
      forward(request, reply, `/listings/${request.params.id}${readQuery(request)}`),
  );

  app.get(
    '/listings/:id/:part',
    {
      config: readConfig,
      schema: {
        tags,
        summary: 'The history, prices, images or likely duplicates of a listing',
        description:
          '`duplicates` is that member of the listing. Images have `links`, which are addresses of the image.',
        params: Type.Object({ id: idSchema, part: Type.Enum(PARTS) }),
        querystring: Type.Object({
          currency: currencySchema,
          limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000 })),
          cursor: Type.Optional(Type.String()),
        }),
        response: { 200: buildResponse('GET /api/v1/listings/{id}/{part}', [exampleImage]) },
      },
    },
    async (request, reply) => {
      const { id, part } = request.params;
      if (part !== 'duplicates')
        return forward(request, reply, `/listings/${id}/${part}${readQuery(request)}`);
      const listing = await forward(request, reply, `/listings/${id}`);
      const { duplicates = [] } = listing as { duplicates?: unknown[] };
      return duplicates;
    },
  );
}

/** Returns the query of a request with its question mark. */
function readQuery({ url }: FastifyRequest): string {
  const index = url.indexOf('?');
  return index === -1 ? '' : url.slice(index);
}
