import { toPage } from '@oselya/kit';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import { signedIn } from '../access/guards.ts';
import { type Position, positions } from '../pages.ts';
import { presentSession, SESSIONS_PAGE, type sessionsQuery } from './schemas.ts';
import type { Sessions } from './service.ts';

/**
 * The handler of `GET /sessions` and `GET /admin/sessions`: a page of what the caller may see, the most
 * recently active first. Contract 3, Answers.
 */
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

const cursorOf = ({ position }: { position: Position }) => positions.write(position);
