import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { commonProblem, problemBody, ProblemError } from '../problems.ts';
import { html, PAGE_STYLE_HASH, renderPage, withCode } from './page.ts';
import { describeErrors } from './validation.ts';

const CSP = 'content-security-policy';
const ERROR_PAGE_POLICY = `default-src 'none'; style-src ${PAGE_STYLE_HASH}; frame-ancestors 'none'; base-uri 'none'`;

/**
 * Answers an error as a problem, or as a page where a browser navigates. An error outside of the error tables is 500
 * without details, which the log has.
 */
export function handleError(
  error: FastifyError | ProblemError,
  request: FastifyRequest,
  reply: FastifyReply,
) {
  return sendProblem(toProblem(error), request, reply);
}

/**
 * Answers a request without a route: its address does not exist, or takes other methods.
 * @param allowed The methods that the address takes.
 */
export function handleNotFound(
  request: FastifyRequest,
  reply: FastifyReply,
  allowed: readonly string[],
) {
  // The route of static files takes the method, and has no such file.
  const isUnknown = allowed.length === 0 || allowed.includes(request.method);
  const problem = isUnknown
    ? commonProblem('not_found')
    : commonProblem('method_not_allowed', { headers: { allow: allowed.join(', ') } });
  return sendProblem(problem, request, reply);
}

function sendProblem(problem: ProblemError, request: FastifyRequest, reply: FastifyReply) {
  if (problem.status >= 500) {
    request.log.error({ err: problem.cause ?? problem, code: problem.code }, problem.title);
  } else {
    request.log.debug({ code: problem.code, detail: problem.detail }, problem.title);
  }
  const body = problemBody(problem, request.id);
  void reply.status(problem.status).headers({
    // The error is of this client and this moment, and caches may keep a 404.
    'cache-control': 'no-store',
    ...problem.headers,
    'x-request-id': request.id,
    // Errors before routing have not passed the hooks that set this.
    ...(reply.hasHeader(CSP) ? {} : { [CSP]: ERROR_PAGE_POLICY }),
  });
  if (wantsPage(request)) {
    const { page } = problem;
    const places = body.errors?.map((one) => html`<li>${one.path}: ${one.message}</li>`);
    return reply.type('text/html; charset=utf-8').send(
      renderPage({
        title: problem.title,
        body: html`<h1>${problem.title}</h1>
          <p>${withCode(page.detail)}</p>
          ${
            places &&
            html`<ul>
              ${places}
            </ul>`
          }
          ${page.button && html`<p><a class="button" href="${page.button.href}">${page.button.text}</a></p>`}
          <p><a href="/">Back to the start</a></p>
          <p>
            <small
              >${problem.status} · <code>${problem.code}</code> · request
              <code>${request.id}</code></small
            >
          </p>`,
      }),
    );
  }
  return reply
    .type('application/problem+json')
    .serializer((value: unknown) => JSON.stringify(value))
    .send(body);
}

function toProblem(error: FastifyError | ProblemError): ProblemError {
  if (error instanceof ProblemError) return error;
  if (error.validation !== undefined) {
    return commonProblem('validation_failed', {
      errors: describeErrors(error.validationContext ?? 'request', error.validation),
      cause: error,
    });
  }
  const { statusCode = 500 } = error;
  switch (statusCode) {
    case 404:
      return commonProblem('not_found', { cause: error });
    case 413:
      return commonProblem('body_too_large', { cause: error });
    case 415:
      return commonProblem('unsupported_media_type', { cause: error });
    case 429:
      return commonProblem('rate_limited', { cause: error });
    case 503:
      return commonProblem('unavailable', { cause: error });
    default:
      return statusCode >= 400 && statusCode < 500
        ? commonProblem('malformed_request', { ...publicDetail(error), cause: error })
        : commonProblem('internal_error', { cause: error });
  }
}

/** Returns Fastify's message, except where it repeats the address, which may hold secrets. */
function publicDetail({ code, message }: FastifyError): { detail: string } {
  return { detail: code === 'FST_ERR_BAD_URL' ? 'The address is not well formed.' : message };
}

/** Returns whether a browser navigates. Programs post too, so for a form the browser has to say so. */
function wantsPage(request: FastifyRequest): boolean {
  const isForm = request.method === 'POST' && request.headers['sec-fetch-mode'] === 'navigate';
  if (request.method !== 'GET' && !isForm) return false;
  return (request.headers.accept ?? '')
    .split(',')
    .some((type) => type.trim().startsWith('text/html'));
}
