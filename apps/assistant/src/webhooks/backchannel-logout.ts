import type { Server } from '@oselya/kit';
import type { FastifyBaseLogger } from 'fastify';
import type { Kysely } from 'kysely';
import { problem, problemAnswers } from '../errors.ts';
import {
  type Identity,
  type IdentityMetrics,
  neverStored,
  outageAsProblem,
} from '../identity/index.ts';
import { okAnswer } from '../schema.ts';
import type { Tables } from '../tables.ts';
import { BACKCHANNEL_LOGOUT } from './events.ts';
import type { CountWebhook } from './metrics.ts';
import { logoutBody } from './schemas.ts';
import { actOnce } from './service.ts';

const FORM = 'application/x-www-form-urlencoded';
const BODY_LIMIT_BYTES = 64 * 1024;

type Deps = {
  db: Kysely<Tables>;
  provider: Pick<Identity['provider'], 'verifyLogoutToken'>;
  /** Whether discovery names the keys and the issuer of logout tokens. */
  hasDiscovery: boolean;
  countWebhook: CountWebhook;
  metrics: Pick<IdentityMetrics, 'countEnded'>;
};

/**
 * `POST /auth/backchannel-logout`: a logout token of the provider ends sessions as a webhook does, once for
 * each `jti`. OpenID Connect Back-Channel Logout 1.0; Contract 6.
 */
export async function backchannelLogoutRoutes(app: Server, deps: Deps): Promise<void> {
  const onlyWithDiscovery = (_request: unknown, _reply: unknown, done: (error?: Error) => void) =>
    done(deps.hasDiscovery ? undefined : problem('backchannel_logout_off'));

  await app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser(FORM, { parseAs: 'string' }, (_request, body, done) => {
      done(null, body);
    });
    scope.post(
      '/auth/backchannel-logout',
      {
        config: { access: 'public', isSigned: true },
        bodyLimit: BODY_LIMIT_BYTES,
        onRequest: [neverStored, onlyWithDiscovery],
        // The schema is for readers: what is sent is read by `tokenIn`.
        validatorCompiler: () => () => true,
        schema: {
          tags: ['webhooks'],
          summary: 'Takes a logout token of the identity provider',
          description:
            'OpenID Connect Back-Channel Logout 1.0. A token with `sid` ends the sign-ins of that session at the provider, one without it all sign-ins of `sub`.',
          body: { content: { [FORM]: { schema: logoutBody } } },
          response: {
            200: okAnswer,
            ...problemAnswers('logout_token_not_valid', 'backchannel_logout_off'),
            ...problemAnswers(413, 415, 'provider_unavailable'),
          },
        },
      },
      async (request) => {
        await logOut(tokenIn(request.body), deps, request.log);
        return { ok: true as const };
      },
    );
  });
}

/** The one `logout_token` of a form; what else it holds does not count. */
function tokenIn(body: unknown): string {
  const [token, ...others] = new URLSearchParams(String(body)).getAll('logout_token');
  return others.length === 0 ? (token ?? '') : '';
}

async function logOut(
  token: string,
  { db, provider, countWebhook, metrics }: Deps,
  log: FastifyBaseLogger,
): Promise<void> {
  const verified = await provider.verifyLogoutToken(token).catch((error: unknown) => {
    throw outageAsProblem(error);
  });
  if ('rejection' in verified) {
    countWebhook({ outcome: 'refused', reason: 'logout_token_not_valid' });
    log.warn({ reason: verified.rejection }, 'a logout token was rejected');
    throw problem('logout_token_not_valid');
  }
  const { jti, sid, sub } = verified;
  const receipt = await actOnce(db, {
    // Ids of webhooks are in the same ledger.
    deliveryId: `jti:${jti}`,
    signature: 'logout_token',
    name: BACKCHANNEL_LOGOUT,
    userId: sub,
    body: token,
    effect:
      sid === null
        ? { does: 'end_sessions', whose: { userId: sub } }
        : { does: 'end_sessions', whose: { providerSessionId: sid, userId: sub } },
  });
  countWebhook(receipt);
  metrics.countEnded('webhook', receipt.sessionsEnded);
  const { outcome, userId, sessionsEnded } = receipt;
  log.info(
    { outcome, user_id: userId, sessions_ended: sessionsEnded },
    'a logout token was accepted',
  );
}
