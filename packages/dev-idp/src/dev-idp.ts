import type { FastifyBaseLogger, FastifyInstance } from 'fastify';
import { createAccounts, type DevAccess, type DevAccount, sampleAccounts } from './accounts.ts';
import { createActs } from './control/acts.ts';
import { controlRoutes } from './control/routes.ts';
import { interactionRoutes } from './interactions.ts';
import { assertLoopback } from './loopback.ts';
import { protocolRoutes } from './mount.ts';
import { createProvider } from './provider.ts';
import { createServer } from './server.ts';
import { createArtifacts } from './store/artifacts.ts';
import { openDatabase } from './store/database.ts';
import { loadKeys } from './store/keys.ts';
import { createWebhooks, type WebhookDelivery, type WebhookTarget } from './webhooks/webhooks.ts';

/** How to set up the provider. */
export type DevIdpOptions = {
  /** The provider's origin, such as `http://127.0.0.1:8002`. It answers under this host alone. */
  issuer: string;
  /** The one application that may sign people in. */
  client: { id: string; secret: string; redirectUris: string[] };
  /** A file that keeps keys, sign-ins and changed accounts; without one they end with the process. */
  storeFile?: string;
  /** Who can sign in; {@link sampleAccounts} by default. */
  accounts?: readonly DevAccount[];
  /** Lifetime of an access token in seconds; 300 by default. */
  accessTokenSeconds?: number;
  /** Longest time in seconds that a sign-in can be refreshed; 30 days by default. */
  refreshTokenSeconds?: number;
  /** Who is told of changes to accounts and of ended sign-ins; nobody by default. */
  webhook?: WebhookTarget;
  /** Where unexpected errors go; nowhere by default. Requests are not logged. */
  log?: FastifyBaseLogger;
};

/**
 * A running provider. Changes are kept in the store and hold for the very next request; each is told
 * by webhook after that, where one is set up. What changes nothing is not told.
 */
export type DevIdp = {
  /** The caller makes it listen, and may add development routes of its own before that. */
  app: FastifyInstance;
  /** The accounts as they are at this moment. */
  readonly accounts: readonly DevAccount[];
  /** The latest webhooks as they are at this moment, the last one first. */
  readonly deliveries: readonly WebhookDelivery[];
  /**
   * Blocks an account, which also ends all its sign-ins (`user.blocked`), or lets it sign in again
   * (`user.unblocked`).
   *
   * @throws RangeError when there is no such account
   */
  setBlocked: (sub: string, blocked: boolean) => void;
  /**
   * Replaces an account's roles (`client.roles_changed`) and permissions
   * (`client.permissions_changed`) in the client.
   *
   * @throws RangeError when there is no such account
   */
  setAccess: (sub: string, access: DevAccess) => void;
  /**
   * Ends all sign-ins of an account: its access and refresh tokens are refused from now on
   * (`session.revoked`).
   */
  revokeSessions: (sub: string) => void;
  /** Ends all sign-ins of all accounts (`auth.global_logout`). */
  logOutEverybody: () => void;
  /** Resolves when every webhook of the changes so far was delivered or given up. */
  webhooksSettled: () => Promise<void>;
  /** Stops listening, gives up webhooks that wait, and closes the store. */
  close: () => Promise<void>;
};

const defaultAccessTokenSeconds = 300;
const defaultRefreshTokenSeconds = 30 * 24 * 60 * 60;

/**
 * Creates an OpenID provider for development that plays the identity provider of the assistant
 * (Specification 000, Provisioning at the identity provider; Contract 3, Identity provider).
 *
 * @throws TypeError when an option has a value that cannot work
 * @throws RangeError when the issuer is not a loopback address
 * @throws Error when the store file cannot be used
 */
export async function createDevIdp(options: DevIdpOptions): Promise<DevIdp> {
  const {
    accessTokenSeconds = defaultAccessTokenSeconds,
    refreshTokenSeconds = defaultRefreshTokenSeconds,
  } = options;
  assertIssuer(options.issuer);
  assertPositiveInteger('accessTokenSeconds', accessTokenSeconds);
  assertPositiveInteger('refreshTokenSeconds', refreshTokenSeconds);

  const webhooks = createWebhooks(options.webhook);

  const database = openDatabase(options.storeFile);
  try {
    const accounts = createAccounts(database, options.accounts ?? sampleAccounts);
    const artifacts = createArtifacts(database);
    const acts = createActs(accounts, artifacts, webhooks);
    const keys = await loadKeys(database);
    const { issuer, client } = options;
    const provider = await createProvider({
      issuer,
      client,
      accessTokenSeconds,
      refreshTokenSeconds,
      accounts,
      artifacts,
      keys,
    });

    const { redirectUris } = client;
    const app = createServer({ issuer, provider, redirectUris, log: options.log });
    await app.register(protocolRoutes, { provider });
    await app.register(controlRoutes, { accounts, acts, webhooks, redirectUris });
    await app.register(interactionRoutes, { provider, accounts, redirectUris });
    app.addHook('onClose', async () => {
      await webhooks.close();
      database.close();
    });

    return {
      app,
      get accounts() {
        return accounts.list();
      },
      get deliveries() {
        return webhooks.recent();
      },
      ...acts,
      webhooksSettled: webhooks.settled,
      close: () => app.close(),
    };
  } catch (error) {
    database.close();
    throw error;
  }
}

function assertIssuer(issuer: string): void {
  const url = URL.parse(issuer);
  if (url?.protocol !== 'http:' || url.origin !== issuer) {
    throw new TypeError('issuer: give an origin such as http://127.0.0.1:8002, without a path');
  }
  assertLoopback(url.hostname);
}

function assertPositiveInteger(name: string, value: number): void {
  if (!Number.isSafeInteger(value) || value <= 0) {
    throw new TypeError(`${name}: give a whole number of seconds above 0`);
  }
}
