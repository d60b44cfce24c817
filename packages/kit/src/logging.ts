import { type Logger as PinoLogger, pino, stdTimeFunctions } from 'pino';

export type Logger = PinoLogger;

/**
 * A logger that writes one JSON object a line to standard output. Requests are logged by route and
 * path, never with their query, headers or body: those carry codes, states, session ids and texts.
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
    formatters: { level: (label: string) => ({ level: label }) },
  };
  return options.destination === undefined ? pino(settings) : pino(settings, options.destination);
}
