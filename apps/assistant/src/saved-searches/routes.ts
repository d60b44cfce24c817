import { type Server, toPage } from '@oselya/kit';
import { guardRefusals, signedIn } from '../access/guards.ts';
import { problemAnswers } from '../errors.ts';
import { type Position, positions } from '../pages.ts';
import { okAnswer } from '../schema.ts';
import {
  PAGE,
  presentSavedSearch,
  savedSearchBody,
  savedSearchChanges,
  savedSearchesAnswer,
  savedSearchesQuery,
  savedSearchParams,
  savedSearchRef,
  savedSearchSchema,
} from './schemas.ts';
import type { SavedSearches } from './service.ts';

const tags = ['saved searches'];
const refusals = [...guardRefusals, 'permission_missing', 422] as const;
const ofOne = [...refusals, 'saved_search_not_yours', 'saved_search_not_found'] as const;
const ofChanges = [400, 'cross_site_request', 413, 415] as const;
const ofSessions = ['session_not_yours', 'session_not_found', 'too_many_sessions'] as const;

const cursorOf = ({ position }: { position: Position }) => positions.write(position);

/** `/saved-searches`: searches that report what is new. docs/saved-searches.md. */
export function savedSearchRoutes(app: Server, savedSearches: SavedSearches): void {
  // They show what the collector has, as tools do. Contract 3: functions outside the table need their permission.
  const config = { access: { permission: 'svc.tools.use' } } as const;
  app.addSchema(savedSearchSchema);

  app.get(
    '/saved-searches',
    {
      config,
      schema: {
        tags,
        summary: "One's saved searches",
        querystring: savedSearchesQuery,
        response: { 200: savedSearchesAnswer, ...problemAnswers(...refusals) },
      },
    },
    async (request, reply) => {
      const { limit = PAGE.limit, cursor } = request.query;
      const after = positions.read(cursor);
      const rows = await savedSearches.list(signedIn(request), { after, limit: limit + 1 });
      return toPage(rows, { limit, cursorOf, request, reply }).map(presentSavedSearch);
    },
  );

  app.post(
    '/saved-searches',
    {
      config,
      schema: {
        tags,
        summary: 'Keeps a search',
        description:
          'Listings that are new, or have become cheaper, and match come as a message in its session: each listing once, in digests that are at least `every_minutes` apart. Without a `session_id` a session is made, which needs `svc.profiles.use`.',
        body: savedSearchBody,
        response: {
          201: { ...savedSearchRef, description: 'It is kept.' },
          ...problemAnswers(...refusals, ...ofChanges, ...ofSessions, 'too_many_saved_searches'),
        },
      },
    },
    async (request, reply) => {
      const saved = await savedSearches.create(signedIn(request), request.body);
      return reply.status(201).send(presentSavedSearch(saved));
    },
  );

  app.get(
    '/saved-searches/:id',
    {
      config,
      schema: {
        tags,
        summary: 'A saved search',
        params: savedSearchParams,
        response: {
          200: { ...savedSearchRef, description: 'The saved search.' },
          ...problemAnswers(...ofOne),
        },
      },
    },
    async (request) =>
      presentSavedSearch(await savedSearches.find(signedIn(request), request.params.id)),
  );

  app.patch(
    '/saved-searches/:id',
    {
      config,
      schema: {
        tags,
        summary: 'Changes a saved search, pauses it or has it go on',
        params: savedSearchParams,
        body: savedSearchChanges,
        response: {
          200: { ...savedSearchRef, description: 'The saved search as it now is.' },
          ...problemAnswers(...ofOne, ...ofChanges, ...ofSessions),
        },
      },
    },
    async (request) => {
      const { id } = request.params;
      return presentSavedSearch(await savedSearches.change(signedIn(request), id, request.body));
    },
  );

  app.delete(
    '/saved-searches/:id',
    {
      config,
      schema: {
        tags,
        summary: 'Deletes a saved search',
        description: 'The messages that it brought stay in their session.',
        params: savedSearchParams,
        response: { 200: okAnswer, ...problemAnswers(...ofOne, 'cross_site_request') },
      },
    },
    async (request) => {
      await savedSearches.delete(signedIn(request), request.params.id);
      return { ok: true as const };
    },
  );
}
