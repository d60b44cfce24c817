import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import fastify, { type FastifyBaseLogger, type FastifyError, type FastifyInstance } from 'fastify';
import createRouter, { type HTTPMethod } from 'find-my-way';
import { type Logger, RequestLogController } from '../logging.ts';
import { commonProblem, problemSchema } from '../problems.ts';
import { createJsonParser, decompressBody, ignoreUndeclaredBody } from './bodies.ts';
import { hasSingleHost, requireSingleHost } from './callers.ts';
import { rejectMalformedHttp, rejectSlowBody, rejectWhileDraining } from './connections.ts';
import { handleError, handleNotFound } from './error-handler.ts';
import { describeResponses } from './openapi.ts';
import { registerIconRoute, securityHeaders } from './page.ts';
import { compilersFactory } from './validation.ts';

// oxlint-disable typescript/consistent-type-definitions -- Fastify's declarations can only be extended by interfaces
declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether the route is for operation, such as health or documentation. Such routes respond during shutdown. */
    operational?: boolean;
  }
}

/** Fastify instance whose routes infer their types from TypeBox schemas. */
export type Server = ReturnType<typeof createFastify>;

/** OpenAPI security scheme. */
type SecurityScheme = { description: string } & (
  | { type: 'http'; scheme: 'bearer' }
  | { type: 'apiKey'; in: 'cookie'; name: string }
);

export type ServerOptions = {
  log: Logger;
  /** Content of the OpenAPI document, which is served at `/openapi.json` and as a page at `/docs`. */
  openapi: {
    title: string;
    description: string;
    version: string;
    /** Descriptions of the route tags, in the order of the page. */
    tags?: readonly { name: string; description: string }[];
    /** Security schemes by the names that routes use in `schema.security`. */
    securitySchemes?: Readonly<Record<string, SecurityScheme>>;
  };
  /** Maximum body size in bytes. Routes can override it. */
  bodyLimit: number;
  /** IP addresses and ranges of proxies whose `X-Forwarded-*` headers are trusted. None by default. */
  trustedProxies?: readonly string[];
  /** Returns whether an error means that a dependency is unreachable. Such errors become 503 instead of 500. */
  isOutage?: (error: unknown) => boolean;
  /** Returns whether to accept an `Upgrade` request. By default, the header is ignored. RFC 9110 §7.8. */
  acceptsUpgrade?: (request: IncomingMessage) => boolean;
  /** Limits for slow and idle connections. Defaults to {@link DEFAULT_CONNECTION_LIMITS}. */
  connectionLimits?: ConnectionLimits;
};

/** Limits for connections without a request in progress, in milliseconds. */
type ConnectionLimits = {
  /** Time from the start of a connection or the first byte of a request until the headers are complete. */
  headMs: number;
  /** Time from the end of a response to the next request. Node adds one second. */
  idleMs: number;
  /** Interval for checking `headMs`. */
  checkMs: number;
};

/** Default limits: connections with slow headers are closed within 30 s, idle ones within 60 s. */
const DEFAULT_CONNECTION_LIMITS: ConnectionLimits = {
  headMs: 25_000,
  idleMs: 58_000,
  checkMs: 5000,
};

/** Maximum length of a route parameter. It exceeds any URL that Node accepts, so only schemas limit the length. */
const MAX_PARAM_LENGTH = 16 * 1024;

/** Default `Retry-After` for 429 and 503 responses. Contract 2. */
const DEFAULT_RETRY_AFTER_SECONDS = 5;

const REQUEST_ID_PATTERN = /^[\w.:-]{1,128}$/;

/** Maximum inactivity of a connection. Without it, a client that never reads would keep its response in memory. */
const MAX_INACTIVITY_MS = 300_000;

/**
 * Creates a Fastify server with the platform's HTTP conventions: problem responses, request IDs, strict body
 * validation, security headers and an OpenAPI document. Contract 2.
 */
export async function createServer(options: ServerOptions): Promise<Server> {
  const app = createFastify(options);
  // Without this listener, Node responds to unknown expectations with 417 and no body. RFC 9110 §10.1.1.
  app.server.on('checkExpectation', (request, response) =>
    app.server.emit('request', request, response),
  );
  app.setErrorHandler((error: FastifyError, request, reply) => {
    const isOutage = options.isOutage?.(error) ?? false;
    const problem = isOutage ? commonProblem('unavailable', { cause: error }) : error;
    return handleError(problem, request, reply);
  });
  const listMethods = createMethodLookup(app);
  app.setNotFoundHandler((request, reply) =>
    handleNotFound(request, reply, listMethods(request.url)),
  );
  app.addSchema(problemSchema);
  // Fastify accepts plain text by default.
  app.removeContentTypeParser('text/plain');
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, createJsonParser(app));
  app.addHook('onRequest', requireSingleHost);
  app.addHook('onRequest', rejectSlowBody);
  app.addHook('onRequest', ignoreUndeclaredBody);
  app.addHook('preParsing', decompressBody);
  app.addHook('onSend', (_request, reply, _payload, done) => {
    const isTemporary = reply.statusCode === 429 || reply.statusCode === 503;
    if (isTemporary && !reply.hasHeader('retry-after')) {
      void reply.header('retry-after', DEFAULT_RETRY_AFTER_SECONDS);
    }
    done();
  });
  app.addHook('onRequest', (request, reply, done) => {
    void reply.headers(securityHeaders).header('x-request-id', request.id);
    done();
  });
  // Rejections need the headers that the previous hook sets.
  app.addHook('onRequest', rejectWhileDraining);
  await describeApi(app, options.openapi);
  registerIconRoute(app);
  return app;
}

function createFastify(options: ServerOptions) {
  const { log, bodyLimit, trustedProxies = [], acceptsUpgrade = () => false } = options;
  const { headMs, idleMs, checkMs } = options.connectionLimits ?? DEFAULT_CONNECTION_LIMITS;
  // A general type keeps route and plugin types independent of the logger.
  const loggerInstance: FastifyBaseLogger = log;
  // Node's request timeout is off. See `rejectSlowBody`.
  return fastify({
    loggerInstance,
    http: {
      // `requireSingleHost` responds with a problem, unlike Node.
      requireHostHeader: false,
      headersTimeout: headMs,
      connectionsCheckingInterval: checkMs,
      shouldUpgradeCallback: (request) => hasSingleHost(request) && acceptsUpgrade(request),
    },
    keepAliveTimeout: idleMs,
    logController: new RequestLogController(),
    bodyLimit,
    trustProxy: trustedProxies.length > 0 ? [...trustedProxies] : false,
    connectionTimeout: MAX_INACTIVITY_MS,
    schemaController: { compilersFactory },
    forceCloseConnections: 'idle',
    clientErrorHandler: (error, socket) => rejectMalformedHttp(error, socket, log),
    routerOptions: { maxParamLength: MAX_PARAM_LENGTH },
    genReqId: (request) => {
      const requestId = request.headers['x-request-id'];
      return typeof requestId === 'string' && REQUEST_ID_PATTERN.test(requestId)
        ? requestId
        : randomUUID();
    },
    frameworkErrors: (error, request, reply) => {
      void handleError(error, request, reply);
    },
  }).withTypeProvider<TypeBoxTypeProvider>();
}

/** Records the routes of a server. Returns a function that lists the sorted methods of a URL. */
function createMethodLookup(app: Pick<FastifyInstance, 'addHook'>): (url: string) => string[] {
  const router = createRouter({ maxParamLength: MAX_PARAM_LENGTH });
  const knownMethods = new Set<HTTPMethod>();
  app.addHook('onRoute', ({ method, url }) => {
    // Fastify's types allow one more method than its router's types.
    for (const routeMethod of [method].flat() as HTTPMethod[]) {
      knownMethods.add(routeMethod);
      if (!router.hasRoute(routeMethod, url)) router.on(routeMethod, url, () => undefined);
    }
  });
  return (url) =>
    [...knownMethods].filter((method) => router.find(method, url) !== null).toSorted();
}

async function describeApi(
  app: Server,
  { tags = [], securitySchemes = {}, ...info }: ServerOptions['openapi'],
): Promise<void> {
  await app.register(swagger, {
    transformObject: describeResponses,
    openapi: { openapi: '3.1.0', info, tags: [...tags], components: { securitySchemes } },
    // Schema IDs become schema names in the document.
    refResolver: {
      buildLocalReference: ({ $id }, _base, _fragment, index) =>
        typeof $id === 'string' ? $id : `schema-${index}`,
    },
  });
  await app.register(async (scope) => {
    scope.addHook('onRoute', (route) => {
      route.config = { ...route.config, operational: true };
    });
    await scope.register(swaggerUi, {
      routePrefix: '/docs',
      staticCSP: true,
      logLevel: 'warn',
      uiConfig: { layout: 'BaseLayout' },
      theme: { title: info.title },
    });
    scope.get('/openapi.json', { schema: { hide: true } }, () => app.swagger());
  });
}
