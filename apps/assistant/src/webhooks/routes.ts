import type { Server } from '@oselya/kit';
import type { FastifyRequest } from 'fastify';
import type { Kysely } from 'kysely';
import { problem, problemAnswers } from '../errors.ts';
import { okAnswer } from '../schema.ts';
import type { Tables } from '../tables.ts';
import { ledgerRoutes } from './ledger-routes.ts';
import { eventLabel } from './metrics.ts';
import { webhookBody } from './schemas.ts';
import type { Receipt, ReceiveWebhook } from './service.ts';

/** Contract 3, Webhooks. */
const BODY_LIMIT_BYTES = 64 * 1024;

const DESCRIPTION =
  'Signed with IDP_WEBHOOK_SECRET: as Standard Webhooks says, or with the HMAC-SHA256 of the body, in ' +
  'hex or base64, in IDP_WEBHOOK_SIGNATURE_HEADER. Events that are not known change nothing.';

/** The webhooks and their ledger. Specification 000, Webhook endpoint; Contract 3, Webhooks. */
export async function webhookRoutes(
  app: Server,
  { db, receive }: { db: Kysely<Tables>; receive: ReceiveWebhook },
): Promise<void> {
  await receiverRoutes(app, async ({ headers, body, log }) => {
    const receipt = await receive({ headers, body: Buffer.isBuffer(body) ? body : NOTHING });
    note(log, receipt);
    if (receipt.outcome === 'refused') throw refusal(receipt.reason);
  });
  ledgerRoutes(app, db);
}

/** The body of a request that has none. */
const NOTHING = Buffer.alloc(0);

/** `POST /webhooks/idp`, in a scope where bodies of whatever type stay the bytes that were signed. */
async function receiverRoutes(
  app: Server,
  receive: (request: FastifyRequest) => Promise<void>,
): Promise<void> {
  await app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => {
      done(null, body);
    });
    scope.post(
      '/webhooks/idp',
      {
        config: { access: 'public', isSigned: true },
        bodyLimit: BODY_LIMIT_BYTES,
        // The schema is for readers: what is sent is read after it was verified, by `readEvent`.
        validatorCompiler: () => () => true,
        schema: {
          tags: ['webhooks'],
          summary: 'Takes a signed event of the identity provider',
          description: DESCRIPTION,
          body: { content: { 'application/json': { schema: webhookBody } } },
          response: {
            200: okAnswer,
            ...problemAnswers('webhook_not_verified', 'malformed_request'),
            ...problemAnswers(413, 415, 'unavailable'),
          },
        },
      },
      async (request) => {
        await receive(request);
        return { ok: true as const };
      },
    );
  });
}

/** Neither the body nor a signature is logged. */
function note(log: FastifyRequest['log'], receipt: Receipt): void {
  if (receipt.outcome === 'refused') {
    log.warn({ reason: receipt.reason }, 'a webhook was refused');
    return;
  }
  const { outcome, userId, sessionsEnded } = receipt;
  const line = { event: eventLabel(receipt), outcome };
  if (outcome === 'user_missing') {
    log.warn(line, 'a revocation names no user that can be read, and changed nothing');
    return;
  }
  log.info({ ...line, user_id: userId, sessions_ended: sessionsEnded }, 'a webhook was accepted');
}

/** Who signed a body learns what is wrong with it; who did not learns nothing more. */
function refusal(reason: Extract<Receipt, { outcome: 'refused' }>['reason']) {
  return reason === 'body_malformed'
    ? problem('malformed_request', {
        detail: 'The signature is valid, but the body is not a JSON object in UTF-8.',
      })
    : problem('webhook_not_verified');
}
