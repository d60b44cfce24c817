import { type Server, toPage } from '@oselya/kit';
import type { Kysely } from 'kysely';
import { guardRefusals } from '../access/guards.ts';
import { problemAnswers } from '../errors.ts';
import type { Tables } from '../tables.ts';
import { listWebhooks } from './repository.ts';
import { LEDGER_PAGE, ledgerCursors, ledgerPage, ledgerQuery } from './schemas.ts';

/** `GET /admin/webhooks`. Contract 3, Webhooks. */
export function ledgerRoutes(app: Server, db: Kysely<Tables>): void {
  app.get(
    '/admin/webhooks',
    {
      config: { access: { permission: 'svc.admin.access' } },
      schema: {
        tags: ['admin', 'webhooks'],
        summary: 'The webhooks that were accepted, newest first',
        querystring: ledgerQuery,
        response: {
          200: ledgerPage,
          ...problemAnswers(...guardRefusals, 'permission_missing', 422),
        },
      },
    },
    async (request, reply) => {
      const { limit = LEDGER_PAGE.limit, cursor } = request.query;
      const before = ledgerCursors.read(cursor);
      const rows = await listWebhooks(db, { before, limit: limit + 1 });
      const page = toPage(rows, { limit, cursorOf, request, reply });
      return page.map((row) => ({ ...row, received_at: row.received_at.toISOString() }));
    },
  );
}

const cursorOf = ({ id }: { id: number }) => ledgerCursors.write(id);
