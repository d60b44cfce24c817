import { isDatabaseOutage } from '@oselya/db';
import { ProblemError } from '@oselya/kit';
import { problem } from '../errors.ts';

/**
 * The error handler of the routes that take payloads in. A database out of reach is 503 elsewhere; here
 * it is 500, be it needed for the payload itself, for its API key or for the rate of its source.
 * Specification 001, Errors; ADR 0009.
 * @throws ProblemError `ingest_failed`; any other error as it came, for the handler of all routes.
 */
export function failAsIngest(error: Error): never {
  throw isInfrastructure(error) ? problem('ingest_failed', { cause: error }) : error;
}

function isInfrastructure(error: Error): boolean {
  // The limiter says `unavailable` where it could not count.
  return isDatabaseOutage(error) || (error instanceof ProblemError && error.code === 'unavailable');
}
