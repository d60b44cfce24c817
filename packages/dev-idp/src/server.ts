import type { EventEmitter } from 'node:events';
import { Server } from 'node:http';
import formBody from '@fastify/formbody';
import { html, isLoopback, hasSingleHost } from '@oselya/kit';
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyRequest,
  LogController,
} from 'fastify';
import { errors, type InteractionResults, type Provider } from 'oidc-provider';
import { type Accounts, createAccounts, type DevAccount } from './accounts.ts';
import { type Changes, controlRoutes, createChanges } from './control.ts';
import { icon, messagePage, pickerPage, sendPage } from './pages.ts';
import { createProvider, interactionPath } from './provider.ts';
import { createArtifacts, loadKeys, openDatabase } from './store.ts';
import { createWebhooks, type WebhookDelivery, type WebhookTarget } from './webhooks.ts';

export { type DevAccess, type DevAccount, sampleAccounts } from './accounts.ts';
export type { WebhookDelivery, WebhookEventName, WebhookTarget } from './webhooks.ts';

/** Options of {@link createDevIdp}. */
export type DevIdpOptions = {
  /** The provider's origin, such as `http://127.0.0.1:8002`. It answers only requests for this host. */
  issuer: string;
  /** The application. */
  client: { id: string; secret: string; redirectUris: string[] };
  /** Keeps keys, sign-ins and changed accounts; without a file they end with the process. */
  storeFile?: string;
  /** Lifetime of an access token in seconds; 300 by default. */
  accessTokenSeconds?: number;
  /** The longest time in seconds that a sign-in can be refreshed; 30 days by default. */
  refreshTokenSeconds?: number;
  /** Receives an event for each change; none by default. */
  webhook?: WebhookTarget;
  /** Receives unexpected errors. Requests are not logged. */
  log?: FastifyBaseLogger;
};

/** A running provider. Changes hold for the next request, and are then sent by webhook. */
export type DevIdp = Changes & {
  /** The caller makes it listen, and may add development routes before that. */
  app: FastifyInstance;
  /** The accounts as they are now. */
  readonly accounts: readonly DevAccount[];
  /** The latest webhooks as they are now, the last one first. */
  readonly deliveries: readonly WebhookDelivery[];
  /** Resolves when every webhook so far has been delivered or has failed. */
  webhooksSettled: () => Promise<void>;
  /** Stops listening, aborts webhooks, and closes the store. */
  close: () => Promise<void>;
};

const ACCESS_TOKEN_SECONDS = 300;
const REFRESH_TOKEN_SECONDS = 30 * 24 * 60 * 60;

/**
 * Creates an OpenID provider for development in place of the assistant's identity provider (Specification 000,
 * Provisioning at the identity provider; Contract 3, Identity provider).
 * @throws TypeError for an option that cannot work, RangeError for an issuer that is not a loopback address, Error for
 *   a store file that cannot be used.
 */
export async function createDevIdp(options: DevIdpOptions): Promise<DevIdp> {
  const { issuer, client, accessTokenSeconds = ACCESS_TOKEN_SECONDS } = options;
  const { refreshTokenSeconds = REFRESH_TOKEN_SECONDS } = options;
  const { redirectUris } = client;
  const url = URL.parse(issuer);
  if (url?.protocol !== 'http:' || url.origin !== issuer) {
    throw new TypeError('issuer: give an origin such as http://127.0.0.1:8002, without a path');
  }
  assertLoopback(url.hostname);
  for (const [name, seconds] of Object.entries({ accessTokenSeconds, refreshTokenSeconds })) {
    if (Number.isSafeInteger(seconds) && seconds > 0) continue;
    throw new TypeError(`${name}: give a whole number of seconds above 0`);
  }
  const webhooks = createWebhooks(options.webhook);
  const database = openDatabase(options.storeFile);
  try {
    const accounts = createAccounts(database);
    const artifacts = createArtifacts(database);
    const changes = createChanges(accounts, artifacts, webhooks);
    const lifetimes = { accessTokenSeconds, refreshTokenSeconds };
    const keys = await loadKeys(database);
    const parts = { accounts, artifacts, keys };
    const provider = await createProvider({ issuer, client, ...lifetimes, ...parts });
    const app = createApp(issuer, redirectUris, options.log);
    logErrors(provider, app.log);
    await app.register(protocolRoutes, { provider });
    await app.register(controlRoutes, { accounts, changes, webhooks, redirectUris });
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
      ...changes,
      webhooksSettled: webhooks.settled,
      close: () => app.close(),
    };
  } catch (error) {
    database.close();
    throw error;
  }
}

/** Rejects every host but this machine's own: anybody who reaches the provider can sign in as anybody. */
function assertLoopback(host: string): void {
  if (isLoopback(host)) return;
  throw new RangeError(
    `The development identity provider signs anybody in and so serves this machine only: ` +
      `use 127.0.0.1 instead of "${host}", or a real identity provider.`,
  );
}

/** An HTTP server that listens on loopback hosts only. */
class LoopbackServer extends Server {
  /** Takes the form that Fastify uses, an object with `host`. @throws RangeError for another host. */
  override listen(options?: unknown): this {
    const { host } = Object(options) as { host?: unknown };
    assertLoopback(String(host));
    return super.listen({ ...Object(options), host });
  }
}

/** Creates the HTTP server without its routes. It answers under the name of its issuer alone. */
function createApp(
  issuer: string,
  redirectUris: readonly string[],
  log: FastifyBaseLogger | undefined,
): FastifyInstance {
  const app = Fastify({
    serverFactory: (handler) => new LoopbackServer(handler),
    logController: new LogController({ disableRequestLogging: true }),
    ...(log && { loggerInstance: log }),
  });
  const { host } = new URL(issuer);
  // A website can resolve its own name to 127.0.0.1 and so reach this server, but its requests name that host.
  app.addHook('onRequest', (request, reply, done) => {
    if (request.host === host && hasSingleHost(request.raw)) return done();
    const [status, message] = hasSingleHost(request.raw)
      ? [421, `The development identity provider answers at ${issuer} only. Use that address.\n`]
      : [400, 'Send one Host header.\n'];
    void reply.code(status).type('text/plain; charset=utf-8').send(message);
  });
  app.setNotFoundHandler((_request, reply) => {
    const text = html`The development identity provider has <a href="/">one page</a>.`;
    return sendPage(reply, 404, messagePage('There is no such page', text, redirectUris));
  });
  app.get('/favicon.ico', (_request, reply) =>
    reply.header('cache-control', 'max-age=86400').type('image/svg+xml').send(icon),
  );
  return app;
}

// Koa prints errors unless something listens to its `error` event, which the provider's types leave out.
function logErrors(provider: Provider, log: FastifyBaseLogger): void {
  const application: EventEmitter = provider;
  application.on('error', (error) => log.error(error));
  provider.on('server_error', (_ctx, error) => log.error(error));
}

/** Passes requests under `/oauth` and `/.well-known` to oidc-provider, which reads the bodies itself. */
async function protocolRoutes(
  app: FastifyInstance,
  { provider }: { provider: Provider },
): Promise<void> {
  const handle = provider.callback();
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, _payload, done) => done(null));
  for (const url of ['/oauth/*', '/.well-known/*']) {
    app.route({
      method: ['GET', 'POST', 'OPTIONS'],
      url,
      exposeHeadRoute: false,
      async handler(request, reply) {
        reply.hijack();
        await handle(request.raw, reply.raw);
      },
    });
  }
}

type Interaction = { Params: { uid: string }; Body: { account?: string; action?: string } };

const MAX_CHOICE_BYTES = 4096;
const choiceSchema = {
  type: 'object',
  properties: { account: { type: 'string' }, action: { const: 'cancel' } },
} as const;

/**
 * Serves the page with the choice of an account. Its requests are tied to the browser that began the sign-in:
 * oidc-provider sets a signed `SameSite=Lax` cookie for this path, and without it there is no interaction.
 */
async function interactionRoutes(
  app: FastifyInstance,
  options: { provider: Provider; accounts: Accounts; redirectUris: readonly string[] },
): Promise<void> {
  const { provider, accounts, redirectUris } = options;
  await app.register(formBody, { bodyLimit: MAX_CHOICE_BYTES });

  app.setErrorHandler((error, _request, reply) => {
    if (!(error instanceof errors.SessionNotFound)) throw error;
    const text =
      'It is finished, took longer than ten minutes, or began in another browser or with cookies turned off.';
    const page = messagePage('This sign-in is no longer open', text, redirectUris);
    return sendPage(reply, 400, page);
  });
  app.addHook<Interaction>('preHandler', async (request, reply) => {
    const { uid } = await provider.interactionDetails(request.raw, reply.raw);
    if (uid !== request.params.uid) {
      throw new errors.SessionNotFound('the cookie belongs to another interaction');
    }
  });

  app.get(interactionPath(':uid'), (_request, reply) =>
    sendPage(reply, 200, pickerPage(accounts.list(), redirectUris)),
  );
  app.post<Interaction>(
    interactionPath(':uid'),
    { schema: { body: choiceSchema } },
    async (request, reply) => {
      const result = resultOf(request);
      if (!result) {
        const text = html`It is blocked or unknown. <a href="">Choose another account</a>.`;
        return sendPage(reply, 400, messagePage('This account cannot sign in', text, redirectUris));
      }
      return reply.redirect(await provider.interactionResult(request.raw, reply.raw, result), 303);
    },
  );

  function resultOf({ body }: FastifyRequest<Interaction>): InteractionResults | undefined {
    if (body.action === 'cancel') {
      return { error: 'access_denied', error_description: 'The sign-in was cancelled.' };
    }
    const account = accounts.find(body.account ?? '');
    if (!account || account.blocked) return undefined;
    return { login: { accountId: account.sub, remember: false } };
  }
}
