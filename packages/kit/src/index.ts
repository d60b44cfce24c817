export { commonConfig, modelConfig, proxyConfig } from './config/common.ts';
export { flag, httpAddress, integer, list, secret, text } from './config/fields.ts';
export { ConfigError, type ConfigRule, loadConfig, loadTogether } from './config/load.ts';
export { escapeHtml, html, type Html, raw, renderPage } from './http/page.ts';
export { createServer, type Server, type ServerOptions } from './http/server.ts';
export { SLOWEST_BODY } from './http/slow-body.ts';
export { createValidatorCompiler } from './http/validator.ts';
export { registerHttpMetrics } from './http/metrics.ts';
export { type ProblemBody, problemBody, problemSchema } from './http/problem-body.ts';
export { isCrossSiteChange, isForeignOrigin } from './http/same-origin.ts';
export { listen } from './http/listen.ts';
export { isLoopback } from './http/loopback.ts';
export { closeServer } from './http/close-server.ts';
export { whenAbandoned } from './http/when-abandoned.ts';
export { healthRoutes, type HealthChecks, type HealthReport } from './http/health.ts';
export { describeProblems } from './http/problem-answers.ts';
export { cursors, pageQuery, toPage } from './http/pagination.ts';
export { createRateLimit, type RateLimit } from './http/rate-limit.ts';
export { clientNetwork } from './http/client-network.ts';
export { describeErrors } from './http/validation-errors.ts';
export { createLogger, type Logger } from './logging.ts';
export { logFields, withLogFields, withOnlyLogFields } from './log-fields.ts';
export {
  defineProblems,
  type ErrorDefinition,
  ProblemError,
  type ProblemFactory,
} from './problems.ts';
export { commonErrors, commonProblem } from './common-errors.ts';
export { onShutdown } from './shutdown.ts';
export { StartError } from './start-error.ts';
export { isSameSecret } from './secret.ts';
export { markOf, MAX_TEXT_LENGTH, SIGN_IN_STEP_MINUTES } from './terminal.ts';
