import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import fastify, {
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
} from 'fastify';
import createRouter, { type HTTPMethod } from 'find-my-way';
import { type Logger, RequestLog } from '../logging.ts';
import { commonProblem, problemSchema } from '../problems.ts';
import { createJsonParser, decompressBody, ignoreUndeclaredBody } from './bodies.ts';
import { namesOneHost, rejectSeveralHosts } from './callers.ts';
import { answerMalformedHttp, rejectSlowBody, rejectWhileDraining } from './connections.ts';
import { handleError, handleNotFound } from './error-handler.ts';
import { describeAnswers } from './openapi.ts';
import { iconRoute, securityHeaders } from './page.ts';
import { compilersFactory } from './validation.ts';

// oxlint-disable typescript/consistent-type-definitions -- Fastify's declarations can only be extended by interfaces
declare module 'fastify' {
  interface FastifyContextConfig {
    /** A public route of every server: health, metrics, documents. */
    operational?: boolean;
  }
}

/** A Fastify instance whose routes take their types from their TypeBox schemas. */
export type Server = ReturnType<typeof createFastify>;

/** A way to authenticate, as OpenAPI describes it. */
export type SecurityScheme = { description: string } & (
  | { type: 'http'; scheme: 'bearer' }
  | { type: 'apiKey'; in: 'cookie'; name: string }
);

/** Options of a server. */
export type ServerOptions = {
  log: Logger;
  /** For the OpenAPI document, served at `/openapi.json` with a readable page at `/docs`. */
  openapi: {
    title: string;
    description: string;
    version: string;
    /** Descriptions of the tags of the routes, in the order of the page. */
    tags?: readonly { name: string; description: string }[];
    /** By the names that the routes use in `schema.security`. */
    securitySchemes?: Readonly<Record<string, SecurityScheme>>;
  };
  /** Largest body in bytes where a route does not say otherwise. */
  bodyLimit: number;
  /** Addresses and ranges of proxies whose `X-Forwarded-*` headers are believed; none by default. */
  trustedProxies?: readonly string[];
  /** Whether an error means that a dependency, such as the database, is unreachable: that is 503, not 500. */
  isOutage?: (error: unknown) => boolean;
  /**
   * Whether a request with `Upgrade` may have another protocol; none by default. Others are answered as if they had not
   * asked for it. RFC 9110 §7.8.
   */
  acceptsUpgrade?: (request: IncomingMessage) => boolean;
  /** How long connections may be slow or idle, {@link CONNECTION_LIMITS} by default. */
  connectionLimits?: ConnectionLimits;
};

/** Limits of connections without a request in progress, in milliseconds. */
type ConnectionLimits = {
  /** From the first byte of a request, or from the connection's start, until its head is complete. */
  headMs: number;
  /** From the end of an answer to the next request; Node adds a second. */
  idleMs: number;
  /** How often `headMs` is checked. */
  checkMs: number;
};

/** Connections with a slow head end within 30 s, idle ones within 60 s. */
const CONNECTION_LIMITS: ConnectionLimits = { headMs: 25_000, idleMs: 58_000, checkMs: 5000 };

/** More than Node reads of an address, so that the schema of a parameter bounds its length. */
const MAX_PARAM_LENGTH = 16 * 1024;

const RETRY_AFTER_SECONDS = 5;

const REQUEST_ID = /^[\w.:-]{1,128}$/;

/**
 * How long a connection may be inactive; otherwise a client that does not read its answer would hold it in memory for
 * ever. A route that needs longer to begin its answer calls `request.raw.setTimeout(0)`.
 */
const INACTIVITY_MS = 300_000;

/**
 * Creates a Fastify server with the platform's HTTP rules: problems for errors, request IDs, schemas that neither strip
 * nor coerce bodies, security headers, an OpenAPI document. Contract 2.
 */
export async function createServer(options: ServerOptions): Promise<Server> {
  const app = createFastify(options);
  // Without this Node answers unknown expectations with 417 and no body. RFC 9110 §10.1.1.
  app.server.on('checkExpectation', (request, response) =>
    app.server.emit('request', request, response),
  );
  const { isOutage = () => false } = options;
  app.setErrorHandler((error: FastifyError, request, reply) =>
    handleError(
      isOutage(error) ? commonProblem('unavailable', { cause: error }) : error,
      request,
      reply,
    ),
  );
  const methodsOf = recordMethods(app);
  app.setNotFoundHandler((request, reply) =>
    handleNotFound(request, reply, methodsOf(request.url)),
  );
  app.addSchema(problemSchema);
  // Fastify accepts plain text by default.
  app.removeContentTypeParser('text/plain');
  app.addContentTypeParser('application/json', { parseAs: 'string' }, createJsonParser(app));
  app.addHook('onRequest', rejectSeveralHosts);
  app.addHook('onRequest', rejectSlowBody);
  app.addHook('onRequest', ignoreUndeclaredBody);
  app.addHook('preParsing', decompressBody);
  app.addHook('onSend', addRetryAfter);
  app.addHook('onRequest', (request, reply, done) => {
    void reply.headers(securityHeaders).header('x-request-id', request.id);
    done();
  });
  // After the headers that every answer has.
  app.addHook('onRequest', rejectWhileDraining);
  await describeApi(app, options.openapi);
  iconRoute(app);
  return app;
}

function createFastify(options: ServerOptions) {
  const { log, bodyLimit, trustedProxies = [], acceptsUpgrade = () => false } = options;
  const { headMs, idleMs, checkMs } = options.connectionLimits ?? CONNECTION_LIMITS;
  // As the plain type, so that routes and plugins need not know which logger it is.
  const loggerInstance: FastifyBaseLogger = log;
  // Node's limit for whole requests is off: see `rejectSlowBody`.
  return fastify({
    loggerInstance,
    http: {
      headersTimeout: headMs,
      connectionsCheckingInterval: checkMs,
      shouldUpgradeCallback: (request) => namesOneHost(request) && acceptsUpgrade(request),
    },
    keepAliveTimeout: idleMs,
    logController: new RequestLog(),
    bodyLimit,
    trustProxy: trustedProxies.length > 0 ? [...trustedProxies] : false,
    connectionTimeout: INACTIVITY_MS,
    schemaController: { compilersFactory },
    forceCloseConnections: 'idle',
    clientErrorHandler: (error, socket) => answerMalformedHttp(error, socket, log),
    routerOptions: { maxParamLength: MAX_PARAM_LENGTH },
    genReqId: (request) => {
      const given = request.headers['x-request-id'];
      return typeof given === 'string' && REQUEST_ID.test(given) ? given : randomUUID();
    },
    frameworkErrors: (error, request, reply) => {
      void handleError(error, request, reply);
    },
  }).withTypeProvider<TypeBoxTypeProvider>();
}

/** Records the routes of a server, and returns a function that lists the methods of an address, sorted. */
function recordMethods(app: Pick<FastifyInstance, 'addHook'>): (url: string) => string[] {
  const router = createRouter({ maxParamLength: MAX_PARAM_LENGTH });
  const methods = new Set<HTTPMethod>();
  app.addHook('onRoute', ({ method, url }) => {
    // Fastify uses this router too, but its types have one more method.
    for (const one of [method].flat() as HTTPMethod[]) {
      methods.add(one);
      if (!router.hasRoute(one, url)) router.on(one, url, () => undefined);
    }
  });
  return (url) => [...methods].filter((method) => router.find(method, url) !== null).toSorted();
}

/** Adds `Retry-After` to each 429 and 503 without one. Contract 2. */
function addRetryAfter(
  _request: unknown,
  reply: FastifyReply,
  _payload: unknown,
  done: () => void,
): void {
  const isTemporary = reply.statusCode === 429 || reply.statusCode === 503;
  if (isTemporary && !reply.hasHeader('retry-after')) {
    void reply.header('retry-after', RETRY_AFTER_SECONDS);
  }
  done();
}

async function describeApi(
  app: Server,
  { tags = [], securitySchemes = {}, ...info }: ServerOptions['openapi'],
): Promise<void> {
  await app.register(swagger, {
    transformObject: describeAnswers,
    openapi: { openapi: '3.1.0', info, tags: [...tags], components: { securitySchemes } },
    // A schema with an id keeps it as its name in the document.
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
