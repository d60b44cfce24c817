import type { Logger, Server } from '@oselya/kit';
import { Type } from 'typebox';
import { type ApiKeyStore, SCOPES } from '../access/api-keys.ts';
import { requireSources } from '../access/guard.ts';
import { problem, problemResponses } from '../errors.ts';
import { choice, createNameSchema, nullable, sourceSlugSchema } from '../schemas.ts';
import { createAdminRoute } from './payloads.ts';

const MAX_SOURCES_PER_KEY = 1000;

const timeSchema = Type.String({ format: 'date-time' });

const apiKeyProperties = {
  id: Type.String(),
  name: Type.String(),
  scopes: Type.Array(Type.String()),
  source_slugs: nullable(
    Type.Array(Type.String(), {
      description: 'Sources that the key may send payloads for; null for all sources.',
    }),
  ),
};

const apiKeyListSchema = Type.Array(
  Type.Object({
    ...apiKeyProperties,
    created_at: timeSchema,
    last_used_at: nullable(
      Type.String({ format: 'date-time', description: 'Last use, to the minute.' }),
    ),
    revoked_at: nullable(timeSchema),
  }),
  {
    description:
      'All keys, including revoked ones, oldest first. The keys themselves are not stored.',
  },
);

const newApiKeySchema = Type.Object(
  {
    name: createNameSchema(200, 'The person or program that uses the key.'),
    scopes: Type.Array(choice(SCOPES), {
      minItems: 1,
      uniqueItems: true,
      description: 'No scope includes another.',
    }),
    source_slugs: Type.Optional(
      Type.Array(sourceSlugSchema, {
        minItems: 1,
        maxItems: MAX_SOURCES_PER_KEY,
        uniqueItems: true,
        description: 'Sources that the key may send payloads for. Without it, all sources.',
      }),
    ),
  },
  {
    additionalProperties: false,
    examples: [{ name: 'scraper-1', scopes: ['ingest'], source_slugs: ['doshka'] }],
  },
);

/** Registers the routes that list, create and revoke API keys. Contract 4, API keys. */
export function registerApiKeyRoutes(
  app: Server,
  { keys, log }: { keys: ApiKeyStore; log: Logger },
): void {
  app.get(
    '/admin/api-keys',
    createAdminRoute({
      summary: 'List the API keys',
      response: { 200: apiKeyListSchema, ...problemResponses(401, 403, 503) },
    }),
    async () =>
      (await keys.list()).map((apiKey) => ({
        ...apiKey,
        created_at: apiKey.created_at.toISOString(),
        last_used_at: apiKey.last_used_at?.toISOString() ?? null,
        revoked_at: apiKey.revoked_at?.toISOString() ?? null,
      })),
  );

  app.post(
    '/admin/api-keys',
    createAdminRoute({
      summary: 'Create an API key',
      description:
        'The answer has the key this once: only its hash is stored. A key with a list of sources creates keys for these ' +
        'sources only.',
      body: newApiKeySchema,
      response: {
        201: Type.Object(
          {
            ...apiKeyProperties,
            key: Type.String({ description: 'Send it as `Authorization: Bearer …`.' }),
          },
          { description: 'The new key.' },
        ),
        ...problemResponses(400, 401, 403, 413, 415, 422, 503),
      },
    }),
    async (request, reply) => {
      const { name, scopes, source_slugs: sources } = request.body;
      requireSources(request, sources);
      const { key, ...apiKey } = await keys.create({ name, scopes, ...(sources && { sources }) });
      log.info({ api_key: apiKey.id, by: request.apiKey?.id }, 'an API key was created');
      void reply.header('cache-control', 'no-store');
      return reply
        .status(201)
        .send({ ...apiKey, scopes: [...scopes], source_slugs: sources ?? null, key });
    },
  );

  app.delete(
    '/admin/api-keys/:id',
    createAdminRoute({
      summary: 'Revoke an API key',
      description: 'Ends its use immediately, on every process. The key stays in the list.',
      params: Type.Object({ id: Type.String({ pattern: String.raw`^\w{1,64}$` }) }),
      response: {
        200: Type.Object({ id: Type.String() }, { description: 'The key is revoked.' }),
        ...problemResponses(401, 403, 'api_key_not_found', 422, 503),
      },
    }),
    async ({ params: { id }, apiKey }) => {
      if (!(await keys.revoke(id))) throw problem('api_key_not_found');
      log.info({ api_key: id, by: apiKey?.id }, 'an API key was revoked');
      return { id };
    },
  );
}
