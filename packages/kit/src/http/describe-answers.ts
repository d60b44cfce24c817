import type { SwaggerTransformObject } from '@fastify/swagger';
import type { OpenAPIV3_1 } from 'openapi-types';

/** What stands in the headers of answers. Contract 2. */
const headers: Readonly<Record<string, OpenAPIV3_1.HeaderObject>> = {
  'X-Request-Id': {
    description: 'Names the request in the log: as it was sent, or made here.',
    schema: { type: 'string' },
  },
  'Retry-After': {
    description: 'After how many seconds it is worth trying again.',
    schema: { type: 'integer' },
  },
  'RateLimit-Limit': {
    description: 'How many requests are taken in a window.',
    schema: { type: 'integer' },
  },
  'RateLimit-Remaining': {
    description: 'How many are left of it.',
    schema: { type: 'integer' },
  },
  'RateLimit-Reset': {
    description: 'In how many seconds the next window begins.',
    schema: { type: 'integer' },
  },
  Link: {
    description: 'Where there is a next page: `<address>; rel="next"` (RFC 8288).',
    schema: { type: 'string' },
  },
};

const ALWAYS = ['X-Request-Id'];
const OF_STATUS: Readonly<Record<string, readonly string[]>> = {
  429: ['Retry-After', 'RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset'],
  503: ['Retry-After'],
};

const PROBLEM = 'application/problem+json';
const PAGE = {
  schema: { type: 'string' as const, description: 'The same for a browser that navigates.' },
};

/**
 * Completes an OpenAPI document by what holds of all routes alike and none of them declares: the headers
 * of answers, and the pages that problems are to browsers.
 */
export const describeAnswers: SwaggerTransformObject = (described) => {
  if (!('openapiObject' in described)) return described.swaggerObject;
  const document = described.openapiObject as Partial<OpenAPIV3_1.Document>;
  for (const path of Object.values(document.paths ?? {})) {
    for (const [method, operation] of Object.entries(path ?? {})) {
      if (isOperation(operation)) describeOperation(method, operation);
    }
  }
  return { ...document, components: { ...document.components, headers } };
};

function describeOperation(method: string, operation: OpenAPIV3_1.OperationObject): void {
  const isList = operation.parameters?.some((one) => 'name' in one && one.name === 'cursor');
  for (const [status, answer] of Object.entries(operation.responses ?? {})) {
    if ('$ref' in answer) continue;
    const names = [...ALWAYS, ...(OF_STATUS[status] ?? [])];
    if (isList && status === '200') names.push('Link');
    const described = names.map((name) => [name, { $ref: `#/components/headers/${name}` }]);
    answer.headers = { ...Object.fromEntries(described), ...answer.headers };
    const content = answer.content;
    if (method === 'get' && content !== undefined && PROBLEM in content) {
      content['text/html'] ??= PAGE;
    }
  }
}

/** A path has members beside its operations, such as its parameters. */
function isOperation(value: unknown): value is OpenAPIV3_1.OperationObject {
  return typeof value === 'object' && value !== null && 'responses' in value;
}
