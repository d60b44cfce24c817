import { simpleRule } from '../rule.ts';

/** Finds ports outside of 1 to 65535 (RFC 6335 §6; port 0 is reserved). */
export const portRange = simpleRule('lint/port-range', 'error', ({ port }) =>
  port === undefined || (port >= 1 && port <= 65_535)
    ? []
    : [{ key: 'port', message: `port must be from 1 to 65535; found ${port}` }],
);
