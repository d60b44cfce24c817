import { type Logger as PinoLogger, pino, stdTimeFunctions } from 'pino';

export type Logger = PinoLogger;

/** What PostgreSQL adds to an error: `detail` and `where` repeat the row, with its ids and texts. */
const ROWS_IN_ERRORS = ['err.detail', 'err.where'];

/** A logger that writes one JSON object a line to standard output. Contract 2. */
export function createLogger(options: {
  level: string;
  service: string;
  destination?: { write(line: string): void };
}): Logger {
  const settings = {
    level: options.level,
    base: { service: options.service },
    timestamp: stdTimeFunctions.isoTime,
    redact: { paths: ROWS_IN_ERRORS, remove: true },
    formatters: { level: (label: string) => ({ level: label }) },
  };
  return options.destination === undefined ? pino(settings) : pino(settings, options.destination);
}
