import { Server } from 'node:http';
import formBody from '@fastify/formbody';
import { html, isLoopback, hasSingleHost } from '@oselya/kit';
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify';
import { errors, type InteractionResults, type Provider } from 'oidc-provider';
import { type Accounts, createAccountStore, type DevAccount } from './accounts.ts';
import { type AccountService, registerControlRoutes, createAccountService } from './control.ts';
import { FAVICON, createMessagePage, createPickerPage, sendPage } from './pages.ts';
import { createProvider, getInteractionPath } from './provider.ts';
import { createArtifactStore, loadKeys, openDatabase } from './store.ts';
import { createWebhooks, type WebhookDelivery, type WebhookTarget } from './webhooks.ts';

export { type DevAccount, sampleAccounts } from './accounts.ts';

export type DevIdpOptions = {
  /** Origin of the provider, such as `http://127.0.0.1:8002`. The provider rejects requests for other hosts. */
  issuer: string;
  client: { id: string; secret: string; redirectUris: string[] };
  /** File for keys, sessions and changed accounts. Without a file, they are lost when the process ends. */
  storeFile?: string;
  accessTokenSeconds?: number;
  refreshTokenSeconds?: number;
  webhook?: WebhookTarget;
};

/** Development provider. Changes to accounts take effect immediately, and webhooks then report them. */
export type DevIdp = AccountService & {
  /** HTTP server. The caller starts it, and can add routes first. */
  app: FastifyInstance;
  readonly accounts: readonly DevAccount[];
  /** Latest webhooks with their current state, most recent first. */
  readonly deliveries: readonly WebhookDelivery[];
  /** Waits until all queued webhooks have been delivered or have failed. */
  webhooksSettled: () => Promise<void>;
  /** Stops listening, aborts webhooks, and closes the store. */
  close: () => Promise<void>;
};

/**
 * Creates an OpenID provider for development, which replaces the identity provider of the assistant (Specification 000,
 * Provisioning at the identity provider; Contract 3, Identity provider).
 * @throws RangeError for an issuer that is not a loopback URL, Error for an invalid client or an unusable store file.
 */
export async function createDevIdp(options: DevIdpOptions): Promise<DevIdp> {
  const { issuer, client, accessTokenSeconds = 300, refreshTokenSeconds = 2_592_000 } = options;
  const { redirectUris } = client;
  assertLoopback(new URL(issuer).hostname);
  const webhooks = createWebhooks(options.webhook);
  const database = openDatabase(options.storeFile);
  try {
    const accounts = createAccountStore(database);
    const artifacts = createArtifactStore(database);
    const accountService = createAccountService(accounts, artifacts, webhooks);
    const keys = await loadKeys(database);
    const provider = await createProvider({
      issuer,
      client,
      accessTokenSeconds,
      refreshTokenSeconds,
      accounts,
      artifacts,
      keys,
    });
    const app = createApp(issuer, redirectUris);
    await app.register(registerProtocolRoutes, { provider });
    await app.register(registerControlRoutes, { accounts, accountService, webhooks, redirectUris });
    await app.register(registerInteractionRoutes, { provider, accounts, redirectUris });
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
        return webhooks.listRecent();
      },
      ...accountService,
      webhooksSettled: webhooks.waitUntilSettled,
      close: () => app.close(),
    };
  } catch (error) {
    database.close();
    throw error;
  }
}

/** Rejects hosts other than loopback, because every client of the provider can sign in as any user. */
function assertLoopback(host: string): void {
  if (isLoopback(host)) return;
  throw new RangeError(
    `The development identity provider signs anybody in, so it serves this machine only: ` +
      `use 127.0.0.1 instead of "${host}", or a real identity provider.`,
  );
}

/** HTTP server that listens only on loopback hosts. */
class LoopbackServer extends Server {
  /** Supports only the call signature that Fastify uses. @throws RangeError if the host is not a loopback host. */
  override listen(options?: unknown): this {
    const { host } = Object(options) as { host?: unknown };
    assertLoopback(String(host));
    return super.listen({ ...Object(options), host });
  }
}

/** Creates the HTTP server, which accepts only requests for the host of the issuer. */
function createApp(issuer: string, redirectUris: readonly string[]): FastifyInstance {
  const app = Fastify({ serverFactory: (handler) => new LoopbackServer(handler) });
  const { host } = new URL(issuer);
  // Prevents DNS rebinding: a website can make its name resolve to 127.0.0.1, but its requests then name it as host.
  app.addHook('onRequest', (request, reply, done) => {
    if (request.host === host && hasSingleHost(request.raw)) return done();
    const [status, message] = hasSingleHost(request.raw)
      ? [421, `The development identity provider answers at ${issuer} only. Use that address.\n`]
      : [400, 'Send one Host header.\n'];
    void reply.code(status).type('text/plain; charset=utf-8').send(message);
  });
  app.setNotFoundHandler((_request, reply) => {
    const text = html`The development identity provider has <a href="/">one page</a>.`;
    return sendPage(reply, 404, createMessagePage('There is no such page', text, redirectUris));
  });
  app.get('/favicon.ico', (_request, reply) =>
    reply.header('cache-control', 'max-age=86400').type('image/svg+xml').send(FAVICON),
  );
  return app;
}

/** Registers the routes of oidc-provider under `/oauth` and `/.well-known`. oidc-provider parses the bodies itself. */
async function registerProtocolRoutes(
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
 * Registers the page for choosing an account. A signed `SameSite=Lax` cookie of oidc-provider binds its requests to the
 * browser that started the sign-in.
 */
async function registerInteractionRoutes(
  app: FastifyInstance,
  options: { provider: Provider; accounts: Accounts; redirectUris: readonly string[] },
): Promise<void> {
  const { provider, accounts, redirectUris } = options;
  await app.register(formBody, { bodyLimit: MAX_CHOICE_BYTES });

  app.setErrorHandler((error, _request, reply) => {
    if (!(error instanceof errors.SessionNotFound)) throw error;
    const text =
      'The sign-in is finished, took longer than ten minutes, or began in another browser or with cookies turned off.';
    const page = createMessagePage('This sign-in is no longer open', text, redirectUris);
    return sendPage(reply, 400, page);
  });
  app.addHook<Interaction>('preHandler', async (request, reply) => {
    const { uid } = await provider.interactionDetails(request.raw, reply.raw);
    if (uid !== request.params.uid) {
      throw new errors.SessionNotFound('the cookie belongs to another interaction');
    }
  });

  app.get(getInteractionPath(':uid'), (_request, reply) =>
    sendPage(reply, 200, createPickerPage(accounts.list(), redirectUris)),
  );
  app.post<Interaction>(
    getInteractionPath(':uid'),
    { schema: { body: choiceSchema } },
    async (request, reply) => {
      const result = parseChoice(request);
      if (!result) {
        const text = html`The account is blocked or unknown.
          <a href="">Choose another account</a>.`;
        const page = createMessagePage('This account cannot sign in', text, redirectUris);
        return sendPage(reply, 400, page);
      }
      return reply.redirect(await provider.interactionResult(request.raw, reply.raw, result), 303);
    },
  );

  function parseChoice({ body }: FastifyRequest<Interaction>): InteractionResults | undefined {
    if (body.action === 'cancel') {
      return { error: 'access_denied', error_description: 'The sign-in was cancelled.' };
    }
    const account = accounts.find(body.account ?? '');
    if (!account || account.blocked) return undefined;
    return { login: { accountId: account.sub, remember: false } };
  }
}
