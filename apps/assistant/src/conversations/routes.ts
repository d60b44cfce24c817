import { type Server, toPage } from '@oselya/kit';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import { signedIn } from '../access/guards.ts';
import { type Position, positions } from '../pages.ts';
import { okAnswer } from '../schema.ts';
import { messagePositions } from './messages.ts';
import {
  conversationAnswer,
  latestQuery,
  MESSAGES_PAGE,
  presentMessage,
  presentSession,
  SESSIONS_PAGE,
  sessionChanges,
  sessionParams,
  sessionsAnswer,
  sessionsQuery,
  sharedSchemas,
  summaryAnswer,
} from './schemas.ts';
import type { Sessions } from './sessions.ts';

const tags = ['sessions'];

/** Adds `/sessions`. Specification 000, Ownership rules on session endpoints; Contract 3. */
export function sessionRoutes(app: Server, sessions: Sessions): void {
  // The statements check ownership, which decides.
  const access = 'signed-in';
  const config = { access, errors: ['session_not_yours', 'session_not_found'] } as const;
  for (const schema of sharedSchemas) app.addSchema(schema);

  app.get(
    '/sessions',
    {
      config: { access, errors: [] },
      schema: {
        tags,
        summary: "Lists one's sessions; with svc.sessions.read_all everybody's",
        querystring: sessionsQuery,
        response: { 200: sessionsAnswer },
      },
    },
    listHandler(sessions),
  );

  app.get(
    '/sessions/:id',
    {
      config,
      schema: {
        tags,
        summary: 'Returns a session with its latest messages',
        params: sessionParams,
        querystring: latestQuery,
        response: { 200: conversationAnswer },
      },
    },
    async (request, reply) => {
      const { limit = MESSAGES_PAGE.limit, cursor } = request.query;
      const before = messagePositions.read(cursor);
      const page = { sessionId: request.params.id, before, limit: limit + 1 };
      const { session, messages } = await sessions.openConversation(signedIn(request), page);
      const shown = toPage(messages, {
        limit,
        cursorOf: ({ position }) => messagePositions.write(position),
        request,
        reply,
      });
      return { ...presentSession(session), messages: shown.toReversed().map(presentMessage) };
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
        response: { 200: summaryAnswer },
      },
    },
    async (request) =>
      presentSession(
        await sessions.changeSession(signedIn(request), request.params.id, request.body),
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
        response: { 200: okAnswer },
      },
    },
    async (request) => {
      await sessions.deleteSession(signedIn(request), request.params.id);
      return { ok: true as const };
    },
  );
}

const cursorOf = ({ position }: { position: Position }) => positions.write(position);

/** Returns the handler of a page of sessions that the caller may read. Contract 3, Answers. */
export function listHandler({ listSessions }: Pick<Sessions, 'listSessions'>) {
  return async (
    request: FastifyRequest<{ Querystring: Static<typeof sessionsQuery> }>,
    reply: FastifyReply,
  ) => {
    const { user_id: userId, limit = SESSIONS_PAGE.limit, cursor } = request.query;
    const after = positions.read(cursor);
    const rows = await listSessions(signedIn(request), { userId, after, limit: limit + 1 });
    return toPage(rows, { limit, cursorOf, request, reply }).map(presentSession);
  };
}
