import type { SwaggerTransformObject } from '@fastify/swagger';
import type { OpenAPIV3_1 } from 'openapi-types';
import { Type } from 'typebox';
import {
  type ErrorDefinition,
  type ProblemBody,
  createProblemBody,
  ProblemError,
} from '../problems.ts';

/** Response headers. Contract 2. */
const RESPONSE_HEADERS: Readonly<Record<string, OpenAPIV3_1.HeaderObject>> = {
  'X-Request-Id': {
    description:
      'ID of the request in the log: the value that the client sent, or a generated one.',
    schema: { type: 'string' },
  },
  'Retry-After': {
    description: 'Number of seconds to wait before the next attempt.',
    schema: { type: 'integer' },
  },
  'RateLimit-Limit': {
    description: 'Maximum number of requests in a window.',
    schema: { type: 'integer' },
  },
  'RateLimit-Remaining': {
    description: 'Number of remaining requests in the window.',
    schema: { type: 'integer' },
  },
  'RateLimit-Reset': {
    description: 'Number of seconds until the next window begins.',
    schema: { type: 'integer' },
  },
  Link: {
    description: 'Link to the next page, if there is one: `<URL>; rel="next"` (RFC 8288).',
    schema: { type: 'string' },
  },
};

const HEADERS_BY_STATUS: Readonly<Record<string, readonly string[]>> = {
  429: ['Retry-After', 'RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset'],
  503: ['Retry-After'],
};

const PROBLEM_TYPE = 'application/problem+json';
const PAGE_CONTENT = {
  schema: {
    type: 'string' as const,
    description: 'The same problem as an HTML page, for browser navigation.',
  },
};

type Examples = NonNullable<OpenAPIV3_1.MediaTypeObject['examples']>;

/**
 * Adds the response headers and the HTML error pages, which routes do not declare, to an OpenAPI document, and moves the
 * examples of errors to its components.
 */
export const describeResponses: SwaggerTransformObject = (source) => {
  if (!('openapiObject' in source)) return source.swaggerObject;
  const document = source.openapiObject as Partial<OpenAPIV3_1.Document>;
  const examples: Examples = {};
  for (const pathItem of Object.values(document.paths ?? {})) {
    for (const [method, operation] of Object.entries(pathItem ?? {})) {
      if (isOperation(operation)) describeOperation(method, operation, examples);
    }
  }
  const components = { ...document.components, headers: RESPONSE_HEADERS, examples };
  return { ...document, components };
};

function describeOperation(
  method: string,
  operation: OpenAPIV3_1.OperationObject,
  sharedExamples: Examples,
): void {
  const isPaginated = operation.parameters?.some(
    (parameter) => 'name' in parameter && parameter.name === 'cursor',
  );
  for (const [status, response] of Object.entries(operation.responses ?? {})) {
    if ('$ref' in response) continue;
    const headerNames = ['X-Request-Id', ...(HEADERS_BY_STATUS[status] ?? [])];
    if (isPaginated && status === '200') headerNames.push('Link');
    const references = headerNames.map((name) => [name, { $ref: `#/components/headers/${name}` }]);
    response.headers = { ...Object.fromEntries(references), ...response.headers };
    const { content } = response;
    const problem = content?.[PROBLEM_TYPE];
    if (content === undefined || problem === undefined) continue;
    if (method === 'get') content['text/html'] ??= PAGE_CONTENT;
    for (const [code, example] of Object.entries(problem.examples ?? {})) {
      if ('$ref' in example) continue;
      sharedExamples[code] = example;
      problem.examples = { ...problem.examples, [code]: { $ref: `#/components/examples/${code}` } };
    }
  }
}

/** Returns whether a member of a path item is an operation. Path items also have other members, such as parameters. */
function isOperation(value: unknown): value is OpenAPIV3_1.OperationObject {
  return typeof value === 'object' && value !== null && 'responses' in value;
}

/**
 * Creates a function that describes route errors as response schemas with examples. A status selects the
 * first error with that status. Status 500 is always included.
 * The function throws an Error if no error in the table has the status.
 * @example
 * response: { 200: pot, ...problemResponses(401, 'tea_only', 422) }
 */
export function createProblemResponses<Code extends string>(
  table: Readonly<Record<Code, ErrorDefinition>>,
) {
  // The type of `Object.keys` is string[].
  const codes = Object.keys(table) as Code[];

  function findCode(error: Code | number): Code {
    if (typeof error === 'string') return error;
    const matchingCode = codes.find((code) => table[code].status === error);
    if (matchingCode === undefined)
      throw new Error(`The error table has no error of status ${error}`);
    return matchingCode;
  }

  return (...errors: readonly (Code | number)[]) => {
    const errorCodes = [...errors, 500].map(findCode);
    const codesByStatus = Map.groupBy(errorCodes, (code) => table[code].status);
    return Object.fromEntries(
      [...codesByStatus].map(([status, matchingCodes]) => [
        status,
        {
          description: matchingCodes.map((code) => table[code].title).join('; '),
          content: {
            'application/problem+json': {
              schema: Type.Ref('Problem'),
              examples: Object.fromEntries(
                matchingCodes.map((code) => [code, { value: createExample(code, table[code]) }]),
              ),
            },
          },
        },
      ]),
    );
  };
}

const EXAMPLE_REQUEST_ID = '2f1d9c52-6a0e-4a39-9c55-0f6c1f8f5b1e';

function createExample(code: string, definition: ErrorDefinition): ProblemBody {
  const errors = [{ path: 'querystring/limit', message: 'must be >= 1' }];
  const details = code === 'validation_failed' ? { errors } : {};
  return createProblemBody(new ProblemError(code, definition, details), EXAMPLE_REQUEST_ID);
}
