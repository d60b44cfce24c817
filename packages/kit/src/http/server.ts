import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import fastify, { type FastifyBaseLogger, type FastifyError } from 'fastify';
import { commonProblem } from '../common-errors.ts';
import type { Logger } from '../logging.ts';
import { rememberMethods } from './allowed-methods.ts';
import { rejectWhileDraining } from './close-server.ts';
import { compilersFactory } from './compilers.ts';
import { decompressBody } from './compressed-body.ts';
import { describeAnswers } from './describe-answers.ts';
import { handleError, handleNotFound } from './error-handler.ts';
import { iconRoute } from './icon.ts';
import { createJsonParser } from './json-parser.ts';
import { answerMalformedHttp } from './malformed-http.ts';
import { nameRetryTime } from './name-retry-time.ts';
import { namesOneHost, refuseSeveralHosts } from './one-host.ts';
import { problemSchema } from './problem-body.ts';
import { RequestLog } from './request-log.ts';
import { securityHeaders } from './security-headers.ts';
import { refuseSlowBody } from './slow-body.ts';
import { passOverUndeclaredBody } from './without-body.ts';

// oxlint-disable typescript/consistent-type-definitions -- what Fastify declares can be added to by interfaces only
declare module 'fastify' {
  interface FastifyContextConfig {
    /** A route that every server of the platform has, and serves to anybody: health, metrics, documents. */
    operational?: boolean;
  }
}

/** A Fastify instance whose routes take their types from their TypeBox schemas. */
export type Server = ReturnType<typeof createFastify>;

/** How a caller says who they are, as OpenAPI describes it. */
export type SecurityScheme = { description: string } & (
  | { type: 'http'; scheme: 'bearer' }
  | { type: 'apiKey'; in: 'cookie'; name: string }
);

/** What servers of the platform differ in. */
export type ServerOptions = {
  log: Logger;
  /** For the OpenAPI document, served at `/openapi.json` with a readable page at `/docs`. */
  openapi: {
    title: string;
    description: string;
    version: string;
    /** What the tags of the routes stand for, in the order of the page. */
    tags?: readonly { name: string; description: string }[];
    /** By the names that the routes use in `schema.security`. */
    securitySchemes?: Readonly<Record<string, SecurityScheme>>;
  };
  /** Largest body in bytes where a route does not say otherwise. */
  bodyLimit: number;
  /** Addresses and ranges of proxies whose `X-Forwarded-*` headers are believed; none by default. */
  trustedProxies?: readonly string[];
  /**
   * Whether an error means that something this service needs is out of reach, such as its database:
   * that is 503, not 500.
   */
  isOutage?: (error: unknown) => boolean;
  /**
   * Whether a request with `Upgrade` goes to whatever listens for upgrades; by default none does. The
   * others are answered as if they had not asked for another protocol (RFC 9110 §7.8).
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

/** More than Node reads of an address: how long a part of one may be is for its schema, whose answer says so. */
const MAX_PARAM_LENGTH = 16 * 1024;

const REQUEST_ID = /^[\w.:-]{1,128}$/;

/**
 * How long nothing may move on a connection. A client that does not read its answer would else hold the
 * answer in memory for ever. It is longer than any answer takes to begin; a route whose answer may take
 * longer lifts it for its request (`request.raw.setTimeout(0)`).
 */
const INACTIVITY_MS = 300_000;

/**
 * A Fastify server with the platform's HTTP rules: problems for errors, request ids, schemas that
 * neither strip nor coerce bodies, security headers, an OpenAPI document. Contract 2.
 */
export async function createServer(options: ServerOptions): Promise<Server> {
  const app = createFastify(options);
  passOverExpectations(app);
  const { isOutage = () => false } = options;
  app.setErrorHandler((error: FastifyError, request, reply) =>
    handleError(
      isOutage(error) ? commonProblem('unavailable', { cause: error }) : error,
      request,
      reply,
    ),
  );
  const methodsOf = rememberMethods(app, { maxParamLength: MAX_PARAM_LENGTH });
  app.setNotFoundHandler((request, reply) =>
    handleNotFound(request, reply, methodsOf(request.url)),
  );
  app.addSchema(problemSchema);
  // Fastify reads plain text where it is not told otherwise; every body here is of a declared type.
  app.removeContentTypeParser('text/plain');
  app.addContentTypeParser('application/json', { parseAs: 'string' }, createJsonParser(app));
  app.addHook('onRequest', refuseSeveralHosts);
  app.addHook('onRequest', refuseSlowBody);
  app.addHook('onRequest', passOverUndeclaredBody);
  app.addHook('preParsing', decompressBody);
  app.addHook('onSend', nameRetryTime);
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
  // Node's limit for the whole request is off: see `refuseSlowBody`.
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

/**
 * A request that expects something nobody knows is answered as if it did not, which RFC 9110 §10.1.1 leaves to the
 * server. Node's own answer is a 417 that says nothing.
 */
function passOverExpectations({ server }: Server): void {
  server.on('checkExpectation', (request, response) => server.emit('request', request, response));
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
