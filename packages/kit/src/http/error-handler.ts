import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { type commonErrors, commonProblem, createProblemBody, ProblemError } from '../problems.ts';
import { html, PAGE_STYLE_HASH, renderPage, renderInlineCode } from './page.ts';
import { describeErrors } from './validation.ts';

const CSP_HEADER = 'content-security-policy';
const ERROR_PAGE_POLICY = `default-src 'none'; style-src ${PAGE_STYLE_HASH}; frame-ancestors 'none'; base-uri 'none'`;

/**
 * Responds to an error with a problem, or with a page if a browser navigates. Unknown errors become 500 without
 * details.
 */
export function handleError(
  error: FastifyError | ProblemError,
  request: FastifyRequest,
  reply: FastifyReply,
) {
  return sendProblem(toProblem(error), request, reply);
}

/**
 * Responds to a request without a route: 404, or 405 if the path has other methods.
 * @param allowedMethods Methods that the path supports.
 */
export function handleNotFound(
  request: FastifyRequest,
  reply: FastifyReply,
  allowedMethods: readonly string[],
) {
  // If the method is allowed, a route for static files matched but has no such file.
  const isResourceMissing = allowedMethods.length === 0 || allowedMethods.includes(request.method);
  const problem = isResourceMissing
    ? commonProblem('not_found')
    : commonProblem('method_not_allowed', { headers: { allow: allowedMethods.join(', ') } });
  return sendProblem(problem, request, reply);
}

function sendProblem(problem: ProblemError, request: FastifyRequest, reply: FastifyReply) {
  if (problem.status >= 500) {
    request.log.error({ err: problem.cause ?? problem, code: problem.code }, problem.title);
  } else {
    request.log.debug({ code: problem.code, detail: problem.detail }, problem.title);
  }
  const body = createProblemBody(problem, request.id);
  void reply.status(problem.status).headers({
    // Caches may store a 404 by default.
    'cache-control': 'no-store',
    ...problem.headers,
    'x-request-id': request.id,
    // The hook that sets this header does not run for errors before routing.
    ...(reply.hasHeader(CSP_HEADER) ? {} : { [CSP_HEADER]: ERROR_PAGE_POLICY }),
  });
  if (isNavigation(request)) {
    const { page } = problem;
    const errorItems = body.errors?.map(({ path, message }) => html`<li>${path}: ${message}</li>`);
    return reply.type('text/html; charset=utf-8').send(
      renderPage({
        title: problem.title,
        body: html`<h1>${problem.title}</h1>
          <p>${renderInlineCode(page.detail)}</p>
          ${
            errorItems &&
            html`<ul>
              ${errorItems}
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

const PROBLEM_CODES: Partial<Record<number, keyof typeof commonErrors>> = {
  404: 'not_found',
  413: 'body_too_large',
  415: 'unsupported_media_type',
  429: 'rate_limited',
  503: 'unavailable',
};

function toProblem(error: FastifyError | ProblemError): ProblemError {
  if (error instanceof ProblemError) return error;
  if (error.validation !== undefined) {
    return commonProblem('validation_failed', {
      errors: describeErrors(error.validationContext ?? 'request', error.validation),
      cause: error,
    });
  }
  const { statusCode = 500, code, message } = error;
  const problemCode = PROBLEM_CODES[statusCode];
  if (problemCode !== undefined) return commonProblem(problemCode, { cause: error });
  if (statusCode < 400 || statusCode >= 500)
    return commonProblem('internal_error', { cause: error });
  // Fastify's message about a bad URL contains the URL, which may contain secrets.
  const detail = code === 'FST_ERR_BAD_URL' ? 'The address is not well formed.' : message;
  return commonProblem('malformed_request', { detail, cause: error });
}

/** Returns whether a browser navigates. A POST also needs `Sec-Fetch-Mode: navigate`, because programs post too. */
function isNavigation(request: FastifyRequest): boolean {
  const isFormSubmission =
    request.method === 'POST' && request.headers['sec-fetch-mode'] === 'navigate';
  if (request.method !== 'GET' && !isFormSubmission) return false;
  return (request.headers.accept ?? '')
    .split(',')
    .some((mediaType) => mediaType.trim().startsWith('text/html'));
}
