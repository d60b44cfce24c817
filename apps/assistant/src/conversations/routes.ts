import { type Server, paginate } from '@oselya/kit';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import { getSignedInUser } from '../access/guards.ts';
import { type Position, positionCursors } from '../pages.ts';
import { okResponse } from '../schema.ts';
import { messageCursors } from './messages.ts';
import {
  conversationResponse,
  latestPageQuery,
  MESSAGES_PAGE_LIMITS,
  presentMessage,
  presentSession,
  SESSIONS_PAGE_LIMITS,
  sessionChanges,
  sessionParams,
  sessionsResponse,
  sessionsQuery,
  sharedSchemas,
  sessionResponse,
} from './schemas.ts';
import type { SessionService } from './sessions.ts';

const tags = ['sessions'];

/** Registers the routes of `/sessions`. Specification 000, Ownership rules on session endpoints. */
export function registerSessionRoutes(app: Server, sessions: SessionService): void {
  // The session service checks ownership, so the guard only requires a sign-in.
  const access = 'signed-in';
  const config = { access, errors: ['session_not_yours', 'session_not_found'] } as const;
  for (const schema of sharedSchemas) app.addSchema(schema);

  app.get(
    '/sessions',
    {
      config: { access, errors: [] },
      schema: {
        tags,
        summary: "Lists the user's sessions; with svc.sessions.read_all those of all users",
        querystring: sessionsQuery,
        response: { 200: sessionsResponse },
      },
    },
    createListHandler(sessions),
  );

  app.get(
    '/sessions/:id',
    {
      config,
      schema: {
        tags,
        summary: 'Returns a session with its latest messages',
        params: sessionParams,
        querystring: latestPageQuery,
        response: { 200: conversationResponse },
      },
    },
    async (request, reply) => {
      const { limit = MESSAGES_PAGE_LIMITS.limit, cursor } = request.query;
      const before = messageCursors.read(cursor);
      const pageQuery = { sessionId: request.params.id, before, limit: limit + 1 };
      const { session, messages } = await sessions.openConversation(
        getSignedInUser(request),
        pageQuery,
      );
      const pageMessages = paginate(messages, {
        limit,
        getCursor: ({ position }) => messageCursors.write(position),
        request,
        reply,
      });
      return {
        ...presentSession(session),
        messages: pageMessages.toReversed().map(presentMessage),
      };
    },
  );

  app.patch(
    '/sessions/:id',
    {
      config,
      schema: {
        tags,
        summary: 'Renames, pins or unpins a session',
        params: sessionParams,
        body: sessionChanges,
        response: { 200: sessionResponse },
      },
    },
    async (request) =>
      presentSession(
        await sessions.changeSession(getSignedInUser(request), request.params.id, request.body),
      ),
  );

  app.delete(
    '/sessions/:id',
    {
      config,
      schema: {
        tags,
        summary: 'Deletes a session with its messages and files',
        params: sessionParams,
        response: { 200: okResponse },
      },
    },
    async (request) => {
      await sessions.deleteSession(getSignedInUser(request), request.params.id);
      return { ok: true as const };
    },
  );
}

const getCursor = ({ position }: { position: Position }) => positionCursors.write(position);

/** Creates the handler that lists the sessions that the caller may read. */
export function createListHandler({ listSessions }: Pick<SessionService, 'listSessions'>) {
  return async (
    request: FastifyRequest<{ Querystring: Static<typeof sessionsQuery> }>,
    reply: FastifyReply,
  ) => {
    const { user_id: userId, limit = SESSIONS_PAGE_LIMITS.limit, cursor } = request.query;
    const after = positionCursors.read(cursor);
    const rows = await listSessions(getSignedInUser(request), { userId, after, limit: limit + 1 });
    return paginate(rows, { limit, getCursor, request, reply }).map(presentSession);
  };
}
