import type { EventEmitter } from 'node:events';
import Fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify';
import type { Provider } from 'oidc-provider';
import { createAccounts, type DevAccess, type DevAccount, sampleAccounts } from './accounts.ts';
import { homeRoutes } from './home.ts';
import { interactionRoutes } from './interactions.ts';
import { assertLoopback, LoopbackServer } from './loopback.ts';
import { protocolRoutes } from './mount.ts';
import { createProvider } from './provider.ts';
import { createArtifacts } from './store/artifacts.ts';
import { openDatabase } from './store/database.ts';
import { loadKeys } from './store/keys.ts';

/** How to set up the provider. */
export interface DevIdpOptions {
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
  /** Where unexpected errors go; nowhere by default. Requests are not logged. */
  log?: FastifyBaseLogger;
}

/** A running provider. Changes are kept in the store and hold for the very next request. */
export interface DevIdp {
  /** The caller makes it listen, and may add development routes of its own before that. */
  app: FastifyInstance;
  /** The accounts as they are at this moment. */
  readonly accounts: readonly DevAccount[];
  /**
   * Blocks an account, which also ends all its sign-ins, or lets it sign in again.
   *
   * @throws {RangeError} when there is no such account
   */
  setBlocked: (sub: string, blocked: boolean) => void;
  /**
   * Replaces an account's roles and permissions in the client.
   *
   * @throws {RangeError} when there is no such account
   */
  setAccess: (sub: string, access: DevAccess) => void;
  /** Ends all sign-ins of an account: its access and refresh tokens are refused from now on. */
  revokeSessions: (sub: string) => void;
  /** Stops listening and closes the store. */
  close: () => Promise<void>;
}

const defaultAccessTokenSeconds = 300;
const defaultRefreshTokenSeconds = 30 * 24 * 60 * 60;

/**
 * Creates an OpenID provider for development that plays the identity provider of the assistant
 * (Specification 000, Provisioning at the identity provider; Contract 3, Identity provider).
 *
 * @throws {TypeError} when an option has a value that cannot work
 * @throws {RangeError} when the issuer is not a loopback address
 * @throws {Error} when the store file cannot be used
 */
export async function createDevIdp(options: DevIdpOptions): Promise<DevIdp> {
  const {
    accessTokenSeconds = defaultAccessTokenSeconds,
    refreshTokenSeconds = defaultRefreshTokenSeconds,
  } = options;
  assertIssuer(options.issuer);
  assertPositiveInteger('accessTokenSeconds', accessTokenSeconds);
  assertPositiveInteger('refreshTokenSeconds', refreshTokenSeconds);

  const database = openDatabase(options.storeFile);
  try {
    const accounts = createAccounts(database, options.accounts ?? sampleAccounts);
    const artifacts = createArtifacts(database);
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

    const app = createApp(options, provider);
    await app.register(protocolRoutes, { provider });
    const { redirectUris } = client;
    await app.register(homeRoutes, { accounts, redirectUris });
    await app.register(interactionRoutes, { provider, accounts, redirectUris });
    app.addHook('onClose', async () => database.close());

    return {
      app,
      get accounts() {
        return accounts.list();
      },
      setBlocked(sub, blocked) {
        accounts.setBlocked(sub, blocked);
        if (blocked) artifacts.revokeAccount(sub);
      },
      setAccess: accounts.setAccess,
      revokeSessions: artifacts.revokeAccount,
      close: () => app.close(),
    };
  } catch (error) {
    database.close();
    throw error;
  }
}

function createApp({ issuer, log }: DevIdpOptions, provider: Provider): FastifyInstance {
  const app = Fastify({
    serverFactory: (handler) => new LoopbackServer(handler),
    logController: new LogController({ disableRequestLogging: true }),
    ...(log && { loggerInstance: log }),
  });
  logErrors(provider, app.log);
  refuseOtherHosts(app, issuer);
  return app;
}

// Koa prints what it cannot answer unless somebody listens to its `error` event, which the provider's
// types leave out.
function logErrors(provider: Provider, log: FastifyBaseLogger): void {
  const application: EventEmitter = provider;
  application.on('error', (error) => log.error(error));
  provider.on('server_error', (_ctx, error) => log.error(error));
}

/**
 * A website can make its own name resolve to 127.0.0.1 and so reach this server from a visitor's
 * browser. It cannot change the `Host` header, which then carries the website's name.
 */
function refuseOtherHosts(app: FastifyInstance, issuer: string): void {
  const { host } = new URL(issuer);
  app.addHook('onRequest', (request, reply, done) => {
    if (request.host === host) return done();
    reply
      .code(421)
      .type('text/plain; charset=utf-8')
      .send(`The development identity provider answers at ${issuer} only. Use that address.\n`);
  });
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
