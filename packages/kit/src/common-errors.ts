import { defineProblems, type ErrorDefinition } from './problems.ts';

/** The errors that every HTTP server of the platform can answer. Contract 2. */
export const commonErrors = {
  malformed_request: {
    status: 400,
    title: 'Malformed request',
    advice: 'The request could not be read. Send well-formed HTTP with a well-formed JSON body.',
    retry: false,
  },
  metrics_token_needed: {
    status: 401,
    title: 'Metrics need a token',
    advice: 'Send METRICS_TOKEN as `Authorization: Bearer …`. It is missing or wrong.',
    retry: false,
  },
  not_found: {
    status: 404,
    title: 'Not found',
    advice: 'There is nothing at this address. See /docs for the addresses of this service.',
    retry: false,
    page: { advice: 'There is nothing at this address.' },
  },
  method_not_allowed: {
    status: 405,
    title: 'Method not allowed',
    advice: 'This address takes other methods. Use one that the header `Allow` lists.',
    retry: false,
    page: { advice: 'This address cannot be opened like this.' },
  },
  request_too_slow: {
    status: 408,
    title: 'Request too slow',
    advice: 'The request was not whole in time. Send all of it sooner, or less in one request.',
    retry: true,
  },
  body_too_large: {
    status: 413,
    title: 'Body too large',
    advice: 'The body is larger than this endpoint takes. Send less in one request.',
    retry: false,
  },
  unsupported_media_type: {
    status: 415,
    title: 'Unsupported media type',
    advice: 'Send the body as the content type that /docs names for this endpoint.',
    retry: false,
  },
  validation_failed: {
    status: 422,
    title: 'Validation failed',
    advice: 'A value breaks its rule. Mend what `errors` lists and send the request again.',
    retry: false,
    page: { advice: 'A value in this address breaks its rule:' },
  },
  rate_limited: {
    status: 429,
    title: 'Too many requests',
    advice: 'Wait for the seconds in `Retry-After`, then send the request again.',
    retry: true,
    page: { advice: 'Wait a minute, then try again.' },
  },
  headers_too_large: {
    status: 431,
    title: 'Headers too large',
    advice: 'The headers are larger than this service takes. Send fewer or shorter headers.',
    retry: false,
  },
  internal_error: {
    status: 500,
    title: 'Internal error',
    advice:
      'The service failed. Try again; if it stays, look for the `request_id` in the service log.',
    retry: true,
    page: {
      advice: 'The service failed. Try again; if it stays, tell its operator the request id below.',
    },
  },
  unavailable: {
    status: 503,
    title: 'Service unavailable',
    advice: 'Something that this service needs does not answer. Try again in a moment.',
    retry: true,
  },
} satisfies Record<string, ErrorDefinition>;

/** Builds the errors common to all servers. */
export const commonProblem = defineProblems(commonErrors);
