import { type Logger as PinoLogger, pino, stdTimeFunctions } from 'pino';
import { logFields } from './log-fields.ts';

/** What the platform logs with. Contract 2. */
export type Logger = PinoLogger;

/** What PostgreSQL adds to an error: `detail` and `where` repeat the row, with its ids and texts. */
const ROWS_IN_ERRORS = ['err.detail', 'err.where'];

/**
 * A logger that writes one JSON object a line to standard output, with the fields of the work that a line
 * belongs to (see `withLogFields`). Contract 2.
 */
export function createLogger(options: {
  level: string;
  service: string;
  destination?: { write(line: string): void };
}): Logger {
  const settings = {
    level: options.level,
    base: { service: options.service },
    timestamp: stdTimeFunctions.isoTime,
    mixin: logFields,
    redact: { paths: ROWS_IN_ERRORS, remove: true },
    formatters: { level: (label: string) => ({ level: label }) },
  };
  return options.destination === undefined ? pino(settings) : pino(settings, options.destination);
}
