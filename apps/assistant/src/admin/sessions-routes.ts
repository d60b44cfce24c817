import type { Server } from '@oselya/kit';
import { guardRefusals } from '../access/guards.ts';
import { problemAnswers } from '../errors.ts';
import { listHandler, type Sessions, sessionsAnswer, sessionsQuery } from '../sessions/index.ts';

/** `GET /admin/sessions`. Specification 000, Admin endpoints. */
export function allSessionsRoutes(app: Server, sessions: Pick<Sessions, 'listSessions'>): void {
  app.get(
    '/admin/sessions',
    {
      config: { access: { role: 'admin' } },
      schema: {
        tags: ['admin', 'sessions'],
        summary: "Everybody's sessions, and those without an owner",
        querystring: sessionsQuery,
        response: {
          200: sessionsAnswer,
          ...problemAnswers(...guardRefusals, 'admin_only', 422),
        },
      },
    },
    listHandler(sessions),
  );
}
