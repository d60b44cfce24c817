import { createCursorCodec, createPageQuery, paginate, type Server } from '@oselya/kit';
import { type Static, Type } from 'typebox';
import { getSignedInUser } from '../access/guards.ts';
import { type Position, positionCursors } from '../pages.ts';
import { nullable, okResponse, storableText, timestamp } from '../schema.ts';
import { DEFAULT_EVERY_MINUTES, type SavedSearch, type SavedSearches } from './saved-searches.ts';
import { searchSchema } from './search.ts';

const PAGE_LIMITS = { limit: 20, maxLimit: 100 };
const FINDS_PAGE_LIMITS = { limit: 100, maxLimit: 1000 };

const savedSearchExample = {
  id: '5f7c1f0e-4a3c-4a57-9a0e-6d0f6b1d3c22',
  name: 'Двокімнатні біля парку',
  search: { query: 'парк', city: 'Львів', rooms_min: 2, rooms_max: 2, price_max: 15_000 },
  session_id: '0d2b7a3e-5a5c-4a8e-9a55-3f1f2f6f7c10',
  every_minutes: 60,
  paused: false,
  created_at: '2026-03-02T09:15:00.000Z',
  updated_at: '2026-03-02T09:15:00.000Z',
  told_at: '2026-03-04T17:42:10.000Z',
};

const idOptions = { minLength: 1, maxLength: 300 };
const savedSearchParams = Type.Object({
  id: storableText({ ...idOptions, description: "The saved search's ID." }),
});
const nameSchema = storableText({ minLength: 1, maxLength: 100 });
const everyMinutesOptions = {
  minimum: 5,
  maximum: 10_080,
  description: 'Minimum number of minutes between two digests.',
};

const savedSearchSchema = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    search: searchSchema,
    session_id: nullable(
      Type.String({
        description:
          'The session that the search reports to. Null after that session was deleted, which pauses the search.',
      }),
    ),
    every_minutes: Type.Integer(),
    paused: Type.Boolean({ description: 'A paused search finds nothing.' }),
    created_at: timestamp(),
    updated_at: timestamp(),
    told_at: nullable(timestamp('Time of the last digest; null before the first one.')),
  },
  { $id: 'SavedSearch', examples: [savedSearchExample] },
);

const savedSearchRef = Type.Unsafe<Static<typeof savedSearchSchema>>(Type.Ref('SavedSearch'));

const savedSearchBody = Type.Object(
  {
    name: nameSchema,
    search: searchSchema,
    session_id: Type.Optional(
      storableText({
        ...idOptions,
        description:
          "A session of the user. If omitted, a new session with the search's name is created.",
      }),
    ),
    every_minutes: Type.Optional(
      Type.Integer({ ...everyMinutesOptions, default: DEFAULT_EVERY_MINUTES }),
    ),
    paused: Type.Optional(Type.Boolean({ default: false })),
  },
  {
    additionalProperties: false,
    examples: [
      { name: savedSearchExample.name, search: savedSearchExample.search, every_minutes: 60 },
    ],
  },
);

const savedSearchChanges = Type.Object(
  {
    name: Type.Optional(nameSchema),
    search: Type.Optional({
      ...searchSchema,
      description:
        'Replaces the whole search. Earlier hits that were not reported yet are reported if the new search finds them too.',
    }),
    session_id: Type.Optional(
      storableText({ ...idOptions, description: 'A session of the owner of the search.' }),
    ),
    every_minutes: Type.Optional(Type.Integer(everyMinutesOptions)),
    paused: Type.Optional(
      Type.Boolean({
        description:
          'Whether the search is paused. False gives a search whose session was deleted a new session.',
      }),
    ),
  },
  { additionalProperties: false, minProperties: 1, examples: [{ paused: true }] },
);

const { MAX_SAFE_INTEGER } = Number;
const findCursors = createCursorCodec(
  Type.Tuple([
    Type.Integer({ minimum: 0, maximum: MAX_SAFE_INTEGER }),
    Type.Integer({ minimum: 1, maximum: MAX_SAFE_INTEGER }),
  ]),
);

const findSchema = Type.Object({
  listing_id: Type.Integer(),
  reason: Type.Enum(['new', 'cheaper']),
  old_price: nullable(
    Type.Number({ description: 'The price before, in the currency of the listing.' }),
  ),
  found_at: timestamp(),
  told_at: nullable(timestamp('Time of the digest with the listing; null while it waits.')),
});

const findExample = {
  listing_id: 4211,
  reason: 'cheaper' as const,
  old_price: 15_000,
  found_at: '2026-03-04T17:40:00.000Z',
  told_at: '2026-03-04T17:42:10.000Z',
};

function presentSearch({
  user_id: _userId,
  ...savedSearch
}: SavedSearch): Static<typeof savedSearchSchema> {
  return {
    ...savedSearch,
    paused: savedSearch.paused || savedSearch.session_id === null,
    created_at: savedSearch.created_at.toISOString(),
    updated_at: savedSearch.updated_at.toISOString(),
    told_at: savedSearch.told_at?.toISOString() ?? null,
  };
}

const tags = ['saved searches'];
const encodeCursor = ({ position }: { position: Position }) => positionCursors.write(position);
// Saved searches query the collector, so they need the same permission as tools. Contract 3.
const access = { permission: 'svc.tools.use' } as const;
const lookupErrors = ['saved_search_not_yours', 'saved_search_not_found'] as const;
const sessionErrors = ['session_not_yours', 'session_not_found', 'too_many_sessions'] as const;

/** Registers `/saved-searches`. docs/saved-searches.md. */
export function registerSavedSearchRoutes(app: Server, savedSearches: SavedSearches): void {
  app.addSchema(savedSearchSchema);

  app.get(
    '/saved-searches',
    {
      config: { access, errors: [] },
      schema: {
        tags,
        summary: "The user's saved searches",
        querystring: Type.Object(createPageQuery(PAGE_LIMITS)),
        response: {
          200: Type.Array(savedSearchRef, {
            description: 'Saved searches, newest first.',
            examples: [[savedSearchExample]],
          }),
        },
      },
    },
    async (request, reply) => {
      const { limit = PAGE_LIMITS.limit, cursor } = request.query;
      const pageQuery = { after: positionCursors.read(cursor), limit: limit + 1 };
      const rows = await savedSearches.list(getSignedInUser(request), pageQuery);
      return paginate(rows, { limit, getCursor: encodeCursor, request, reply }).map(
        ({ position: _position, ...savedSearch }) => presentSearch(savedSearch),
      );
    },
  );

  app.post(
    '/saved-searches',
    {
      config: { access, errors: [...sessionErrors, 'too_many_saved_searches'] },
      schema: {
        tags,
        summary: 'Saves a search',
        description:
          'New and cheaper listings that match arrive as messages in the session of the search: each listing once, in digests that are at least `every_minutes` apart. Without a `session_id` a session is created, which needs `svc.profiles.use`.',
        body: savedSearchBody,
        response: { 201: { ...savedSearchRef, description: 'The saved search.' } },
      },
    },
    async (request, reply) => {
      const savedSearch = await savedSearches.create(getSignedInUser(request), request.body);
      return reply.status(201).send(presentSearch(savedSearch));
    },
  );

  app.get(
    '/saved-searches/:id/finds',
    {
      config: { access, errors: lookupErrors },
      schema: {
        tags,
        summary: 'The listings that a saved search has found',
        params: savedSearchParams,
        querystring: Type.Object(createPageQuery(FINDS_PAGE_LIMITS)),
        response: {
          200: Type.Array(findSchema, {
            description: 'Finds, latest first.',
            examples: [[findExample]],
          }),
        },
      },
    },
    async (request, reply) => {
      const { limit = FINDS_PAGE_LIMITS.limit, cursor } = request.query;
      const page = { after: findCursors.read(cursor), limit: limit + 1 };
      const rows = await savedSearches.listFinds(getSignedInUser(request), request.params.id, page);
      const getCursor = (row: (typeof rows)[number]) =>
        findCursors.write([row.found_us, row.listing_id]);
      return paginate(rows, { limit, getCursor, request, reply }).map(
        ({ kind, found_us: _foundUs, ...find }) => ({
          ...find,
          reason: kind,
          found_at: find.found_at.toISOString(),
          told_at: find.told_at?.toISOString() ?? null,
        }),
      );
    },
  );

  app.get(
    '/saved-searches/:id',
    {
      config: { access, errors: lookupErrors },
      schema: {
        tags,
        summary: 'A saved search',
        params: savedSearchParams,
        response: { 200: { ...savedSearchRef, description: 'The saved search.' } },
      },
    },
    async (request) =>
      presentSearch(await savedSearches.find(getSignedInUser(request), request.params.id)),
  );

  app.patch(
    '/saved-searches/:id',
    {
      config: { access, errors: [...lookupErrors, ...sessionErrors] },
      schema: {
        tags,
        summary: 'Changes, pauses or resumes a saved search',
        params: savedSearchParams,
        body: savedSearchChanges,
        response: { 200: { ...savedSearchRef, description: 'The changed search.' } },
      },
    },
    async (request) => {
      const { id: searchId } = request.params;
      return presentSearch(
        await savedSearches.change(getSignedInUser(request), searchId, request.body),
      );
    },
  );

  app.delete(
    '/saved-searches/:id',
    {
      config: { access, errors: lookupErrors },
      schema: {
        tags,
        summary: 'Deletes a saved search',
        description: 'The messages of the search stay in their session.',
        params: savedSearchParams,
        response: { 200: okResponse },
      },
    },
    async (request) => {
      await savedSearches.delete(getSignedInUser(request), request.params.id);
      return { ok: true as const };
    },
  );
}
