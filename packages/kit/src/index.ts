export { ConfigError, type ConfigRule, loadConfig, loadTogether } from './config.ts';
export {
  commonConfig,
  flag,
  httpAddress,
  integer,
  list,
  modelConfig,
  proxyConfig,
  secret,
  text,
} from './config-fields.ts';
export { createJsonParser } from './http/bodies.ts';
export {
  clientNetwork,
  isCrossSiteChange,
  isForeignOrigin,
  isLoopback,
  isSameSecret,
  namesOneHost,
} from './http/callers.ts';
export { closeServer, onDrain, SLOWEST_BODY, whenAbandoned } from './http/connections.ts';
export { type HealthChecks, healthRoutes } from './http/health.ts';
export { registerHttpMetrics } from './http/metrics.ts';
export { describeProblems } from './http/openapi.ts';
export { escapeHtml, html, type Html, raw, renderPage } from './http/page.ts';
export { cursors, pageQuery, toPage } from './http/pagination.ts';
export { createRateLimit, type RateLimit } from './http/rate-limit.ts';
export { createServer, type Server, type ServerOptions } from './http/server.ts';
export { compileAll, createValidatorCompiler, describeErrors } from './http/validation.ts';
export {
  createLogger,
  logFields,
  type Logger,
  withLogFields,
  withOnlyLogFields,
} from './logging.ts';
export {
  commonErrors,
  commonProblem,
  defineProblems,
  type ErrorDefinition,
  type ProblemBody,
  problemBody,
  ProblemError,
  problemSchema,
} from './problems.ts';
export { listen, onShutdown, StartError } from './process.ts';
export {
  formatAmount,
  formatListingId,
  formatNumber,
  formatPrice,
  markOf,
  MAX_TEXT_LENGTH,
  SIGN_IN_STEP_MINUTES,
} from './wording.ts';
