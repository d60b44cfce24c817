export { ConfigError, type ConfigRule, loadConfig, loadConfigs } from './config.ts';
export {
  commonConfig,
  flag,
  httpUrl,
  integer,
  list,
  modelConfig,
  proxyConfig,
  secret,
  text,
} from './config-fields.ts';
export { createJsonParser } from './http/bodies.ts';
export {
  getClientNetwork,
  isCrossSiteChange,
  isForeignOrigin,
  isLoopback,
  isSameSecret,
  hasSingleHost,
} from './http/callers.ts';
export { closeServer, onDrain, MIN_BODY_RATE, createDisconnectSignal } from './http/connections.ts';
export { type HealthChecks, registerHealthRoutes } from './http/health.ts';
export { registerHttpMetrics } from './http/metrics.ts';
export { createProblemResponses } from './http/openapi.ts';
export { escapeHtml, html, type Html, rawHtml, renderPage } from './http/page.ts';
export { addNextLink, createCursorCodec, createPageQuery, paginate } from './http/pagination.ts';
export { createRateLimit, type RateLimit } from './http/rate-limit.ts';
export { createServer, type Server, type ServerOptions } from './http/server.ts';
export {
  compilePendingSchemas,
  createValidatorCompiler,
  describeErrors,
} from './http/validation.ts';
export {
  createLogger,
  getLogFields,
  type Logger,
  withLogFields,
  withIsolatedLogFields,
} from './logging.ts';
export {
  commonErrors,
  commonProblem,
  createProblemFactory,
  type ErrorDefinition,
  type ProblemBody,
  createProblemBody,
  ProblemError,
  problemSchema,
} from './problems.ts';
export { listen, onShutdown, StartError } from './process.ts';
export {
  formatAmount,
  formatListingId,
  formatNumber,
  formatPrice,
  shortenCodeChallenge,
  SIGN_IN_STEP_MINUTES,
} from './format.ts';
