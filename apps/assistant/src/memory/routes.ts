import { createPageQuery, type Server, paginate } from '@oselya/kit';
import { type Static, Type } from 'typebox';
import { getSignedInUser } from '../access/guards.ts';
import { type Position, positionCursors } from '../pages.ts';
import { nullable, okResponse, storableText, timestamp, userIdSchema } from '../schema.ts';
import type { Fact } from './facts.ts';
import type { Memory, Summary } from './memory.ts';

const PAGE_LIMITS = { limit: 100, maxLimit: 1000 };

const ownerIdSchema = nullable(
  Type.String({
    description: "The owner; null for an older system's row, visible only to admins.",
  }),
);

const factExample = {
  id: 'b5f7a1de-6f0c-4d44-9d0a-0f6a4a3f2c11',
  user_id: 'u-1',
  category: 'preferences',
  key: 'district',
  value: 'Near the park, not above the third floor',
  source_session_id: null,
  created_at: '2026-03-02T09:15:00.000Z',
  updated_at: '2026-03-04T17:42:10.000Z',
};

const factSchema = Type.Object(
  {
    id: Type.String(),
    user_id: ownerIdSchema,
    category: Type.String(),
    key: Type.String({ description: 'The key, unique within the category and user.' }),
    value: Type.String(),
    source_session_id: nullable(
      Type.String({ description: 'The conversation in which the assistant learned the fact.' }),
    ),
    created_at: nullable(timestamp("The creation time; null if an older system's row lacks it.")),
    updated_at: nullable(timestamp()),
  },
  { $id: 'MemoryFact', examples: [factExample] },
);

/** Reference to the fact schema, which `registerMemoryRoutes` adds to the server. */
export const factRef = Type.Unsafe<Static<typeof factSchema>>(Type.Ref('MemoryFact'));

/** Converts the times of a fact for a response. Contract 3, Further endpoints. */
export const presentFact = (fact: Fact): Static<typeof factSchema> => ({
  ...fact,
  created_at: fact.created_at?.toISOString() ?? null,
  updated_at: fact.updated_at?.toISOString() ?? null,
});

const summaryExample = {
  user_id: 'u-1',
  summary: 'Looks for a flat for four with a balcony; moves in the summer.',
  updated_at: '2026-03-04T17:42:10.000Z',
};

const summarySchema = Type.Object(
  {
    user_id: ownerIdSchema,
    summary: Type.String({ description: 'The summary; empty if there is none.' }),
    updated_at: nullable(timestamp()),
  },
  { $id: 'MemorySummary', examples: [summaryExample] },
);

const summaryRef = Type.Unsafe<Static<typeof summarySchema>>(Type.Ref('MemorySummary'));

const presentSummary = (summary: Summary): Static<typeof summarySchema> => ({
  ...summary,
  updated_at: summary.updated_at?.toISOString() ?? null,
});

const scopeSchema = Type.Optional(
  Type.Union([Type.Literal('own'), Type.Literal('all')], {
    default: 'own',
    description: '`all` is the memory of all users and needs `svc.memory.read_all`.',
  }),
);

const filterProperties = {
  // Categories from an older system can be longer than new categories, so this limit is higher.
  category: Type.Optional(storableText({ maxLength: 1000 })),
  q: Type.Optional(
    storableText({
      maxLength: 100,
      description:
        "Up to five words that the category, key or value contain, in any letter case. A search in all users' facts that takes longer than 5 s is rejected: restrict it by a category, or at `/admin/memory` by a `user_id`.",
    }),
  ),
};

const buildNameSchema = (description: string) =>
  storableText({ minLength: 1, maxLength: 100, description });

const factParams = Type.Object({
  category: buildNameSchema('Such as `preferences`; up to 100 characters, percent-encoded.'),
  key: buildNameSchema('Such as `district`, within the category.'),
});

const tags = ['memory'];
const encodeCursor = ({ position }: { position: Position }): string =>
  positionCursors.write(position);

/** Registers `/memory/*` and `GET /admin/memory`. Contract 3, Further endpoints; Specification 000, Admin endpoints. */
export function registerMemoryRoutes(app: Server, memory: Memory): void {
  app.addSchema(factSchema);
  app.addSchema(summarySchema);

  app.get(
    '/memory/facts',
    {
      // The required permission depends on the scope, so the service checks it.
      config: { access: 'signed-in', errors: ['permission_missing', 'rate_limited'] },
      schema: {
        tags,
        summary: "The user's facts, or those of all users",
        querystring: Type.Object({
          scope: scopeSchema,
          ...filterProperties,
          ...createPageQuery(PAGE_LIMITS),
        }),
        response: {
          200: Type.Array(factRef, { description: 'Facts, most recently updated first.' }),
        },
      },
    },
    async (request, reply) => {
      const {
        scope: requestedScope = 'own',
        category,
        q,
        limit = PAGE_LIMITS.limit,
        cursor,
      } = request.query;
      const after = positionCursors.read(cursor);
      const query = { scope: requestedScope, category, q, limit: limit + 1, after };
      const rows = await memory.listFacts(getSignedInUser(request), query);
      return paginate(rows, { limit, getCursor: encodeCursor, request, reply }).map(presentFact);
    },
  );

  app.put(
    '/memory/facts/:category/:key',
    {
      config: { access: { permission: 'svc.memory.read_own' }, errors: ['memory_full'] },
      schema: {
        tags,
        summary: "Writes a fact of the user's own",
        params: factParams,
        body: Type.Object(
          { value: storableText({ maxLength: 4000 }) },
          {
            additionalProperties: false,
            examples: [{ value: 'Near the park, not above the third floor' }],
          },
        ),
        response: {
          200: { ...factRef, description: 'The value of an existing fact was replaced.' },
          201: { ...factRef, description: 'The fact was created.' },
        },
      },
    },
    async (request, reply) => {
      const factInput = { ...request.params, ...request.body };
      const { fact, previous } = await memory.putFact(getSignedInUser(request), factInput);
      return reply.status(previous === undefined ? 201 : 200).send(presentFact(fact));
    },
  );

  app.delete(
    '/memory/facts/:category/:key',
    {
      config: { access: { permission: 'svc.memory.read_own' }, errors: ['fact_not_found'] },
      schema: {
        tags,
        summary: "Deletes a fact of the user's own",
        params: factParams,
        response: { 200: okResponse },
      },
    },
    async (request) => {
      await memory.deleteFact(getSignedInUser(request), request.params);
      return { ok: true as const };
    },
  );

  app.get(
    '/memory/summary',
    {
      // The required permission depends on the scope, so the service checks it.
      config: { access: 'signed-in', errors: ['permission_missing'] },
      schema: {
        tags,
        summary: "A summary of the user's memory, or those of all users",
        querystring: Type.Object({ scope: scopeSchema, ...createPageQuery(PAGE_LIMITS) }),
        response: {
          200: Type.Union([summaryRef, Type.Array(summaryRef)], {
            description:
              "The caller's summary; with `scope=all` an array of all summaries, most recently updated first.",
            examples: [summaryExample, [summaryExample]],
          }),
        },
      },
    },
    async (request, reply) => {
      const user = getSignedInUser(request);
      const { scope: requestedScope, limit = PAGE_LIMITS.limit, cursor } = request.query;
      if (requestedScope !== 'all') return presentSummary(await memory.findSummary(user));
      const after = positionCursors.read(cursor);
      const rows = await memory.listSummaries(user, { limit: limit + 1, after });
      return paginate(rows, { limit, getCursor: encodeCursor, request, reply }).map(presentSummary);
    },
  );

  app.get(
    '/admin/memory',
    {
      config: { access: { permission: 'svc.memory.read_all' }, errors: ['rate_limited'] },
      schema: {
        tags: ['admin', 'memory'],
        summary: "All users' facts",
        querystring: Type.Object({
          user_id: Type.Optional(userIdSchema),
          ...filterProperties,
          ...createPageQuery(PAGE_LIMITS),
        }),
        response: {
          200: Type.Object(
            {
              facts: Type.Array(factRef, { description: 'Facts, most recently updated first.' }),
              count: Type.Integer({ description: 'The number of facts on all pages.' }),
            },
            { description: 'A page of the facts.', examples: [{ facts: [factExample], count: 1 }] },
          ),
        },
      },
    },
    async (request, reply) => {
      const { user_id: ownerId, category, q, limit = PAGE_LIMITS.limit, cursor } = request.query;
      const { facts, count } = await memory.listAndCountFacts(getSignedInUser(request), {
        scope: 'all',
        userId: ownerId,
        category,
        q,
        limit: limit + 1,
        after: positionCursors.read(cursor),
      });
      const page = paginate(facts, { limit, getCursor: encodeCursor, request, reply });
      return { facts: page.map(presentFact), count };
    },
  );
}
