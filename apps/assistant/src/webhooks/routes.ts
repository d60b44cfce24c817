import { createCursorCodec, createPageQuery, type Server, paginate } from '@oselya/kit';
import type { FastifyBaseLogger } from 'fastify';
import type { Kysely } from 'kysely';
import { Type } from 'typebox';
import { problem } from '../errors.ts';
import type { Provider } from '../identity/provider/provider.ts';
import { toRequestError } from '../identity/provider/transport.ts';
import { disableCaching } from '../identity/routes.ts';
import { nullable, okResponse, timestamp, userIdSchema } from '../schema.ts';
import type { Tables } from '../tables.ts';
import {
  type EventReceiver,
  listWebhooks,
  parseEvent,
  type Receipt,
  formatEventLabel,
} from './events.ts';
import type { VerifySignature } from './signature.ts';

/** Maximum size of a webhook body. Contract 3, Webhooks. */
const MAX_BODY_BYTES = 64 * 1024;

const FORM_MEDIA_TYPE = 'application/x-www-form-urlencoded';

type WebhookDeps = {
  db: Kysely<Tables>;
  receiver: EventReceiver;
  verify: VerifySignature;
  provider: Pick<Provider, 'verifyLogoutToken'>;
  /** Whether discovery provides the issuer and keys of logout tokens. */
  hasDiscovery: boolean;
};

/**
 * Registers webhooks, logout tokens and their ledger. Specification 000, Webhook endpoint; Contract 3, Webhooks;
 * OpenID Connect Back-Channel Logout 1.0.
 */
export async function registerWebhookRoutes(app: Server, deps: WebhookDeps): Promise<void> {
  // Separate scopes leave the bodies unparsed, as they were signed. Schemas only document the bodies.
  await app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => {
      done(null, body);
    });
    registerWebhookRoute(scope, deps);
  });
  await app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser(FORM_MEDIA_TYPE, { parseAs: 'string' }, (_request, body, done) => {
      done(null, body);
    });
    registerLogoutTokenRoute(scope, deps);
  });
  registerLedgerRoute(app, deps.db);
}

const webhookBody = Type.Object(
  {
    event: Type.Optional(
      Type.String({ description: 'The name of the event; `type` is accepted instead.' }),
    ),
    user_id: Type.Optional(userIdSchema),
    event_id: Type.Optional(
      Type.String({
        maxLength: 255,
        description:
          'The ID of the event. With a signature of the body alone, an event with an ID is applied once.',
      }),
    ),
  },
  { examples: [{ event: 'user.blocked', user_id: 'u-1' }] },
);

const SIGNED_ROUTE_CONFIG = { access: 'public', isSigned: true } as const;
const RAW_BODY_OPTIONS = { bodyLimit: MAX_BODY_BYTES, validatorCompiler: () => () => true };

function registerWebhookRoute(app: Server, { receiver, verify }: WebhookDeps): void {
  app.post(
    '/webhooks/idp',
    {
      ...RAW_BODY_OPTIONS,
      config: {
        ...SIGNED_ROUTE_CONFIG,
        errors: ['webhook_not_verified', 'malformed_request', 'unavailable'],
      },
      schema: {
        tags: ['webhooks'],
        summary: 'Receives a signed event of the identity provider',
        description:
          'The event is signed with IDP_WEBHOOK_SECRET: as in Standard Webhooks, or with the HMAC-SHA256 of the body, in ' +
          'hex or base64, in IDP_WEBHOOK_SIGNATURE_HEADER. Unknown events change nothing.',
        body: { content: { 'application/json': { schema: webhookBody } } },
        response: { 200: okResponse },
      },
    },
    async ({ headers, body: bytes, log }) => {
      const body = Buffer.isBuffer(bytes) ? bytes : Buffer.alloc(0);
      const verification = verify(headers, body);
      const event = 'rejection' in verification ? undefined : parseEvent(body);
      if ('rejection' in verification || event === undefined) {
        const reason = 'rejection' in verification ? verification.rejection : 'body_malformed';
        receiver.countRejected();
        log.warn({ reason }, 'a webhook was rejected');
        if ('rejection' in verification) throw problem('webhook_not_verified');
        throw problem('malformed_request', {
          detail: 'The signature is valid, but the body is not a JSON object in UTF-8.',
        });
      }
      const receipt = await receiver.receiveWebhook(event, verification, body);
      logReceipt(log, receipt);
      return { ok: true as const };
    },
  );
}

function logReceipt(log: FastifyBaseLogger, { outcome, event, userId, sessionsEnded }: Receipt) {
  const logFields = { event: formatEventLabel(event), outcome };
  if (outcome === 'user_missing') {
    log.warn(logFields, 'a revocation names no user that can be read, and changed nothing');
  } else {
    log.info(
      { ...logFields, user_id: userId, sessions_ended: sessionsEnded },
      'a webhook was accepted',
    );
  }
}

const logoutBody = Type.Object(
  { logout_token: Type.String({ description: 'A JWT that the provider signed.' }) },
  { examples: [{ logout_token: 'eyJhbGciOiJSUzI1NiJ9.e30.c2ln' }] },
);

function registerLogoutTokenRoute(
  app: Server,
  { receiver, provider, hasDiscovery }: WebhookDeps,
): void {
  app.post(
    '/auth/backchannel-logout',
    {
      ...RAW_BODY_OPTIONS,
      config: {
        ...SIGNED_ROUTE_CONFIG,
        errors: ['logout_token_not_valid', 'backchannel_logout_off', 'provider_unavailable'],
      },
      onRequest: [
        disableCaching,
        (_request, _reply, done) =>
          done(hasDiscovery ? undefined : problem('backchannel_logout_off')),
      ],
      schema: {
        tags: ['webhooks'],
        summary: 'Receives a logout token of the identity provider',
        description:
          'Implements OpenID Connect Back-Channel Logout 1.0. A token with `sid` ends the sign-ins of that session at the provider; a token without it ends all sign-ins of `sub`.',
        body: { content: { [FORM_MEDIA_TYPE]: { schema: logoutBody } } },
        response: { 200: okResponse },
      },
    },
    async ({ body, log }) => {
      const tokens = new URLSearchParams(String(body)).getAll('logout_token');
      const token = tokens.length === 1 ? (tokens[0] ?? '') : '';
      const verification = await provider.verifyLogoutToken(token).catch((error: unknown) => {
        throw toRequestError(error);
      });
      if ('rejection' in verification) {
        receiver.countRejected();
        log.warn({ reason: verification.rejection }, 'a logout token was rejected');
        throw problem('logout_token_not_valid');
      }
      logReceipt(log, await receiver.receiveLogoutToken(verification, token));
      return { ok: true as const };
    },
  );
}

const PAGE_LIMITS = { limit: 50, maxLimit: 200 };

const ledgerCursorCodec = createCursorCodec(
  Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
);

const ledgerRowSchema = Type.Object(
  {
    id: Type.Integer(),
    received_at: timestamp(),
    delivery_id: nullable(
      Type.String({ description: 'The signed ID of the delivery; each delivery is applied once.' }),
    ),
    signature: Type.Union(
      [Type.Literal('hmac'), Type.Literal('standard'), Type.Literal('logout_token')],
      {
        description:
          'The form of the signature: of the body alone, of Standard Webhooks, or of an OpenID Connect logout token.',
      },
    ),
    event: nullable(Type.String()),
    user_id: nullable(Type.String()),
    outcome: Type.Union([Type.Literal('applied'), Type.Literal('ignored')], {
      description: 'The outcome: `ignored` if the event changes nothing here.',
    }),
    sessions_ended: Type.Integer(),
    body_sha256: Type.String({ description: 'SHA-256 of the raw body, in hex.' }),
  },
  { $id: 'WebhookEvent' },
);

const ledgerExample = {
  id: 17,
  received_at: '2026-11-21T08:30:00.000Z',
  delivery_id: 'msg_2KWPBgLlAfxdpx2AI54pPJ85f4W',
  signature: 'standard',
  event: 'user.blocked',
  user_id: 'u-1',
  outcome: 'applied',
  sessions_ended: 2,
  body_sha256: 'b1946ac92492d2347c6235b4d2611184b1946ac92492d2347c6235b4d2611184',
};

function registerLedgerRoute(app: Server, db: Kysely<Tables>): void {
  app.get(
    '/admin/webhooks',
    {
      config: { access: { permission: 'svc.admin.access' }, errors: [] },
      schema: {
        tags: ['admin', 'webhooks'],
        summary: 'Lists the accepted webhooks',
        querystring: Type.Object(createPageQuery(PAGE_LIMITS)),
        response: {
          200: Type.Array(ledgerRowSchema, {
            description: 'The ledger, newest first.',
            examples: [[ledgerExample]],
          }),
        },
      },
    },
    async (request, reply) => {
      const { limit = PAGE_LIMITS.limit, cursor } = request.query;
      const rows = await listWebhooks(db, {
        beforeId: ledgerCursorCodec.read(cursor),
        limit: limit + 1,
      });
      const encodeCursor = ({ id }: { id: number }) => ledgerCursorCodec.write(id);
      const page = paginate(rows, { limit, getCursor: encodeCursor, request, reply });
      return page.map((row) => ({ ...row, received_at: row.received_at.toISOString() }));
    },
  );
}
