import { type Server, toPage } from '@oselya/kit';
import { guardRefusals, signedIn } from '../access/guards.ts';
import { problemAnswers } from '../errors.ts';
import { okAnswer } from '../schema.ts';
import { listHandler } from './list.ts';
import { messagePositions } from './message-positions.ts';
import {
  conversationAnswer,
  latestQuery,
  MESSAGES_PAGE,
  presentMessage,
  presentSession,
  sessionChanges,
  sessionParams,
  sessionsAnswer,
  sessionsQuery,
  sharedSchemas,
  summaryAnswer,
} from './schemas.ts';
import type { Sessions } from './service.ts';

const tags = ['sessions'];
const refusals = [...guardRefusals, 'session_not_yours', 'session_not_found', 422] as const;

/** `/sessions`. Specification 000, Ownership rules on session endpoints; Contract 3. */
export function sessionRoutes(app: Server, sessions: Sessions): void {
  // Whose a session is decides what may be done with it, which the statements ask.
  const config = { access: 'signed-in' } as const;
  for (const schema of sharedSchemas) app.addSchema(schema);

  app.get(
    '/sessions',
    {
      config,
      schema: {
        tags,
        summary: "One's sessions; with svc.sessions.read_all everybody's",
        querystring: sessionsQuery,
        response: { 200: sessionsAnswer, ...problemAnswers(...guardRefusals, 422) },
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
        summary: 'A session with its latest messages',
        params: sessionParams,
        querystring: latestQuery,
        response: { 200: conversationAnswer, ...problemAnswers(...refusals) },
      },
    },
    async (request, reply) => {
      const user = signedIn(request);
      const { id: sessionId } = request.params;
      const { limit = MESSAGES_PAGE.limit, cursor } = request.query;
      const before = messagePositions.read(cursor);
      const page = { sessionId, before, limit: limit + 1 };
      const { session, messages } = await sessions.openConversation(user, page);
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
        summary: 'Renames a session, pins or unpins it',
        params: sessionParams,
        body: sessionChanges,
        response: {
          200: summaryAnswer,
          ...problemAnswers(400, ...refusals, 'cross_site_request', 413, 415),
        },
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
        response: { 200: okAnswer, ...problemAnswers(...refusals, 'cross_site_request') },
      },
    },
    async (request) => {
      await sessions.deleteSession(signedIn(request), request.params.id);
      return { ok: true as const };
    },
  );
}
