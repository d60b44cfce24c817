import cookie from '@fastify/cookie';
import {
  getClientNetwork,
  createRateLimit,
  createServer,
  registerHealthRoutes,
  type Logger,
  type RateLimit,
  registerHttpMetrics,
  type Server,
} from '@oselya/kit';
import { type Database, isDatabaseOutage, ping } from '@oselya/db';
import { Registry } from 'prom-client';
import manifest from '../package.json' with { type: 'json' };
import { guardRoutes } from './access/guards.ts';
import { registerAdminRoutes } from './admin/users.ts';
import { FIXED_AGENT_LIMITS } from './conversations/agent/agent.ts';
import { openModel, probeTools } from './conversations/agent/model.ts';
import { createInstructionsCheck } from './conversations/agent/window.ts';
import { registerAuditRoute, sweepAudit } from './admin/audit.ts';
import { registerAsyncApi } from './conversations/asyncapi.ts';
import { registerChatLifecycle, createChat } from './conversations/chat.ts';
import { createHandlers } from './conversations/handlers.ts';
import { createChatMetrics } from './conversations/metrics.ts';
import { openEventLog, sweepEvents } from './conversations/event-log.ts';
import { createCollectorClient } from './collector/client.ts';
import type { Config } from './config.ts';
import { createFileService } from './files/files.ts';
import { registerFileRoutes } from './files/routes.ts';
import { CONSOLE_FOLDER, registerConsoleRoutes } from './console.ts';
import { registerHomeRoute } from './home.ts';
import { createBoardService } from './boards/boards.ts';
import { registerBoardRoutes } from './boards/routes.ts';
import { registerMarkRoutes } from './marks/routes.ts';
import { registerCollectorAdminRoutes } from './admin/collector.ts';
import { registerInventoryRoute } from './admin/inventory.ts';
import { createIdentity } from './identity/identity.ts';
import { createIdentityMetrics } from './identity/metrics.ts';
import { registerSignInRoutes } from './identity/routes.ts';
import { registerOwnSignInRoutes } from './identity/own-sign-ins.ts';
import { sweepInvalidations, USER_CHANNEL } from './identity/revocation.ts';
import { sweepPendingLogins, sweepTerminalSignIns } from './identity/sign-in.ts';
import { sweepAuthSessions } from './identity/auth-sessions.ts';
import { registerTerminalRoutes } from './identity/terminal-routes.ts';
import { registerUpkeep } from './upkeep.ts';
import { createImageLinks, registerImageRoute } from './listings/images.ts';
import { registerListingRoutes } from './listings/routes.ts';
import { createMemoryService } from './memory/memory.ts';
import { registerMemoryRoutes } from './memory/routes.ts';
import { registerOwnDataRoutes } from './own-data/routes.ts';
import { openProfiles, SHIPPED_PROFILES, watchProfiles } from './profiles/profiles.ts';
import { registerProfileRoutes } from './profiles/routes.ts';
import { registerConversationSearchRoute } from './conversations/search.ts';
import { registerInspectionRoutes } from './conversations/inspection.ts';
import { processSavedSearches } from './saved-searches/digests.ts';
import { createDigestMetrics } from './saved-searches/metrics.ts';
import { registerSavedSearchRoutes } from './saved-searches/routes.ts';
import { createSavedSearchService } from './saved-searches/saved-searches.ts';
import { registerSettingsRoutes } from './settings/settings.ts';
import { createSessionService } from './conversations/sessions.ts';
import { registerSessionRoutes } from './conversations/routes.ts';
import { isSocketHandshake, registerSocketRoutes } from './conversations/socket-routes.ts';
import { openUserFeed } from './conversations/user-feed.ts';
import { createSocketRegistry, socketLimits } from './conversations/socket.ts';
import type { Tables } from './tables.ts';
import { PROFILE_TOOLS } from './conversations/tools/tools.ts';
import { createEventReceiver, sweepWebhooks } from './webhooks/events.ts';
import { registerWebhookRoutes } from './webhooks/routes.ts';
import { createVerifier } from './webhooks/signature.ts';

const BODY_LIMIT_BYTES = 64 * 1024;

const TAGS = [
  { name: 'sign-in', description: 'Sign-in, sign-out and the current user.' },
  { name: 'sessions', description: 'Conversations, with their messages and files.' },
  { name: 'listings', description: 'Listings of the collector, and their images.' },
  { name: 'saved searches', description: 'Searches that report new listings.' },
  { name: 'marks', description: "The user's status, rating, note and tags on listings." },
  { name: 'boards', description: 'Shortlists of listings that users share.' },
  { name: 'memory', description: 'Facts that the assistant remembers about a user.' },
  { name: 'settings', description: 'Settings of the user for clients.' },
  { name: 'profiles', description: 'The agents of conversations.' },
  { name: 'admin', description: 'Endpoints for administrators.' },
  { name: 'webhooks', description: 'Events of the identity provider.' },
  { name: 'operations', description: 'Endpoints for operators.' },
];

/** Members of the database connection that the assistant uses. */
export type AssistantDatabase = Pick<Database<Tables>, 'db' | 'pool' | 'listen' | 'isExclusive'>;

/**
 * Creates the assistant's server, ready for `listen` or `inject`.
 * @throws StartError for invalid profiles or model settings; DatabaseError.
 */
export async function createApp({
  config,
  database,
  log,
  hasConsole = true,
}: {
  config: Config;
  database: AssistantDatabase;
  log: Logger;
  /** Whether to serve the console, if it is built. */
  hasConsole?: boolean;
}): Promise<Server> {
  const { db } = database;
  const memory = createMemoryService({ db });
  const { COLLECTOR_URL: url, COLLECTOR_API_KEY: apiKey } = config;
  const collector = createCollectorClient({ url, apiKey });
  const files = createFileService({ db });
  const services = { collector, memory, files, inventoryFile: config.INVENTORY_FILE };
  const contextTokens = config.MODEL_CONTEXT_TOKENS;
  const profiles = await openProfiles({
    folder: config.PROFILES_DIR ?? SHIPPED_PROFILES,
    toolNames: PROFILE_TOOLS,
    check: createInstructionsCheck(contextTokens),
    log,
  });
  const app = await createServer({
    log,
    bodyLimit: BODY_LIMIT_BYTES,
    trustedProxies: config.TRUSTED_PROXIES,
    isOutage: isDatabaseOutage,
    acceptsUpgrade: isSocketHandshake,
    openapi: {
      title: 'Oselya assistant',
      description:
        'Sign-in through an identity provider, roles and permissions, conversations and memory.',
      version: manifest.version,
      tags: TAGS,
      securitySchemes: {
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: config.SVC_AUTH_COOKIE_NAME,
          description: 'The session cookie, which a browser gets by signing in at `/auth/login`.',
        },
      },
    },
  });
  const registry = new Registry();
  const metrics = createIdentityMetrics(registry);
  const identity = createIdentity({ config, db, log, metrics });
  app.addHook('onListen', (done) => {
    identity.tokenRevocation.start();
    done();
  });
  app.addHook('onClose', () => identity.tokenRevocation.close());
  await app.register(cookie);
  guardRoutes(app, {
    baseUrl: config.BASE_URL,
    hasSession: identity.cookies.hasSession,
    resolveUser: identity.resolveRequestUser,
  });
  // Registered before the routes, because a plugin scope inherits only earlier hooks.
  registerHttpMetrics(app, registry, { token: config.METRICS_TOKEN });

  const limitNetworkLogins = createRateLimit({
    pool: database.pool,
    table: 'assistant_rate_limits',
    name: 'login',
    perMinute: config.LOGIN_PER_MINUTE,
  });
  const limitLogins: RateLimit = (address) => limitNetworkLogins(getClientNetwork(address));
  const signInDeps = { config, db, identity, limitLogins };
  registerSignInRoutes(app, signInDeps);
  registerTerminalRoutes(app, signInDeps);
  registerOwnSignInRoutes(app, signInDeps);
  registerAuditRoute(app, db);
  registerMemoryRoutes(app, memory);
  const consoleOptions = { folder: CONSOLE_FOLDER, baseUrl: config.BASE_URL };
  if (!hasConsole || !(await registerConsoleRoutes(app, consoleOptions)))
    registerHomeRoute(app, identity, config.BASE_URL);
  await registerWebhookRoutes(app, {
    db,
    receiver: createEventReceiver({ db, registry, metrics }),
    verify: createVerifier({
      secret: config.IDP_WEBHOOK_SECRET,
      oldSecrets: config.IDP_WEBHOOK_SECRETS_OLD,
      isStandardOnly: config.IDP_WEBHOOK_STANDARD_ONLY,
      signatureHeader: config.IDP_WEBHOOK_SIGNATURE_HEADER,
    }),
    provider: identity.provider,
    hasDiscovery: config.IDP_DISCOVERY,
  });
  const model = openModel(config, { registry, log });
  const sessions = createSessionService({ db, profiles });
  const requestDeps = { db, services, contextTokens };
  const events = await openEventLog({ db, listen: database.listen, log });
  const chat = createChat({
    ...requestDeps,
    events,
    model,
    profiles,
    limits: {
      ...FIXED_AGENT_LIMITS,
      outputTokens: config.ANSWER_MAX_TOKENS,
      ms: config.ANSWER_MAX_SECONDS * 1000,
    },
    metrics: createChatMetrics(registry),
    log,
  });
  registerSessionRoutes(app, sessions);
  registerConversationSearchRoute(app, db);
  registerSavedSearchRoutes(app, createSavedSearchService({ db, sessions }));
  const imageLinks = createImageLinks(config);
  registerListingRoutes(app, { collector, imageLinks });
  registerImageRoute(app, { collector, identity, imageLinks });
  registerSettingsRoutes(app, db);
  registerMarkRoutes(app, db);
  registerBoardRoutes(app, createBoardService({ db }));
  registerInspectionRoutes(app, { ...requestDeps, profiles });
  await registerFileRoutes(app, files);
  registerProfileRoutes(app, { db, profiles });
  watchProfiles(app, profiles);
  registerOwnDataRoutes(app, db);
  registerAdminRoutes(app, {
    db,
    metrics,
    tokenRevocation: identity.tokenRevocation,
    sessions,
  });
  registerInventoryRoute(app, { db, inventoryFile: config.INVENTORY_FILE });
  registerCollectorAdminRoutes(app, {
    db,
    collector: createCollectorClient({ url, apiKey: config.COLLECTOR_ADMIN_API_KEY }),
  });
  const userFeed = await openUserFeed({ db, listen: database.listen, log });
  app.addHook('onClose', () => userFeed.close());
  const sockets = createSocketRegistry({
    identity,
    types: createHandlers({ chat, sessions, userFeed }),
    caps: { perUser: config.SOCKETS_PER_USER, perAddress: config.SOCKETS_PER_ADDRESS },
    limits: socketLimits,
    registry,
    log,
  });
  await registerSocketRoutes(app, {
    sockets,
    cookies: identity.cookies,
    listen: (onNotify) => database.listen(USER_CHANNEL, onNotify),
    baseUrl: config.BASE_URL,
    limits: socketLimits,
  });
  const { isExclusive } = database;
  // Registered after the sockets: `onClose` hooks run in reverse order, and revocations must take effect until the
  // last answer ends.
  registerChatLifecycle(app, { chat, model, isExclusive });
  let probe: ReturnType<typeof probeTools> | undefined;
  app.addHook('onListen', async () => {
    probe = probeTools(config, model, log);
  });
  app.addHook('onClose', () => probe?.close());
  processSavedSearches(app, {
    db,
    collector,
    config,
    metrics: createDigestMetrics(registry),
    log,
    pollSeconds: config.SAVED_SEARCH_POLL_SECONDS,
    isExclusive,
  });
  registerAsyncApi(app, { version: manifest.version, cookieName: config.SVC_AUTH_COOKIE_NAME });
  registerHealthRoutes(app, {
    async database() {
      await ping(db);
      return { status: 'ok' };
    },
    // Not `down`, because sign-in, digests and earlier conversations work without the model.
    async model(signal) {
      const { status, detail } = await model.health({ signal });
      return { status: status === 'ok' ? 'ok' : 'degraded', ...(detail && { detail }) };
    },
    async identity_provider() {
      const reason = await identity.provider.findOutage();
      if (reason === undefined) return { status: 'ok' };
      const detail = `The identity provider ${reason}: check IDP_BASE_URL.`;
      return { status: 'degraded', detail };
    },
  });
  const sweeps = {
    'pending logins': sweepPendingLogins,
    'terminal sign-ins': sweepTerminalSignIns,
    'turn events': sweepEvents,
    'auth sessions': sweepAuthSessions(config),
    invalidations: sweepInvalidations,
    'webhook ledger': sweepWebhooks(config.AUDIT_RETENTION_DAYS),
    'audit trail': sweepAudit(config.AUDIT_RETENTION_DAYS),
  };
  registerUpkeep(app, { db, log, sweeps });
  await app.ready();
  return app;
}
