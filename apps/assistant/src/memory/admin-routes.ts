import { type Server, toPage } from '@oselya/kit';
import { guardRefusals, signedIn } from '../access/guards.ts';
import { problemAnswers } from '../errors.ts';
import { positions } from '../pages.ts';
import { cursorOf } from './routes.ts';
import { adminFactsAnswer, adminFactsQuery, PAGE, presentFact } from './schemas.ts';
import type { Memory } from './service.ts';

/** `GET /admin/memory`, the global view. Specification 000, Admin endpoints. */
export function adminMemoryRoutes(app: Server, memory: Memory): void {
  app.get(
    '/admin/memory',
    {
      config: { access: { permission: 'svc.memory.read_all' } },
      schema: {
        tags: ['admin', 'memory'],
        summary: "All users' facts",
        querystring: adminFactsQuery,
        response: {
          200: adminFactsAnswer,
          ...problemAnswers(...guardRefusals, 'permission_missing', 422, 'rate_limited'),
        },
      },
    },
    async (request, reply) => {
      const user = signedIn(request);
      const { user_id: userId, category, q, limit = PAGE.limit, cursor } = request.query;
      const asked = { scope: 'all' as const, userId, category, q };
      const after = positions.read(cursor);
      const { facts, count } = await memory.listAndCountFacts(user, {
        ...asked,
        limit: limit + 1,
        after,
      });
      const page = toPage(facts, { limit, cursorOf, request, reply });
      return { facts: page.map(presentFact), count };
    },
  );
}
