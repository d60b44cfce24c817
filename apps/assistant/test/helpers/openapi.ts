import assert from 'node:assert/strict';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import type { Server } from '@oselya/kit';

export type Media = { schema?: object; example?: unknown; examples?: object };
export type ResponseObject = { description: string; content?: Record<string, Media> };
export type Operation = {
  summary?: string;
  tags?: string[];
  security?: object[];
  requestBody?: { content: Record<string, Media> };
  responses: Record<string, ResponseObject>;
};
export type OpenApi = {
  paths: Record<string, Record<string, Operation>>;
  tags: { name: string }[];
};

type InjectedResponse = {
  statusCode: number;
  headers: { 'content-type'?: string };
  body: string;
};

/** URI of the document in the validator. */
const DOCUMENT_URI = 'openapi.json';

/** Converts the path of a route to the syntax of OpenAPI. */
export const toDocumentPath = (route: string) => route.replaceAll(/:(\w+)/g, '{$1}');

/** Builds a JSON pointer in a URI. RFC 6901 §6. */
const buildPointer = (...keys: string[]) =>
  keys.map((key) => encodeURIComponent(key.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/');

/** Creates functions that check values and responses against a document. */
export function createDocumentChecker(document: OpenApi) {
  // Strict mode would reject the document's members, because the document is not a schema.
  const ajv = new Ajv2020({ strict: false, validateSchema: false, allErrors: true });
  formats.default(ajv);
  ajv.addSchema(document, DOCUMENT_URI);
  const compiledSchemas = new Map<string, ValidateFunction>();

  /** Returns a memoized validator, because compilation is slow. */
  function getValidator($ref: string): ValidateFunction {
    const validate = compiledSchemas.get($ref) ?? ajv.compile({ $ref });
    compiledSchemas.set($ref, validate);
    return validate;
  }

  /** Fails unless a value matches the schema at a JSON pointer. */
  function check(schemaPath: string[], value: unknown): void {
    const validate = getValidator(`${DOCUMENT_URI}#/${buildPointer(...schemaPath)}`);
    assert.ok(validate(value), `${schemaPath.join(' ')}: ${ajv.errorsText(validate.errors)}`);
  }

  /** Fails unless the document describes the status, type and any JSON body of a response. Ignores hidden routes. */
  function checkResponse(method: string, route: string, response: InjectedResponse): void {
    const path = toDocumentPath(route);
    const operation = document.paths[path]?.[method.toLowerCase()];
    if (operation === undefined) return;
    const status = String(response.statusCode);
    const documentedResponse = operation.responses[status];
    assert.ok(
      documentedResponse,
      `${method} ${route} responds with ${status}, which is not documented`,
    );
    if (documentedResponse.content === undefined) return assert.equal(response.body, '');
    const type = response.headers['content-type']?.split(';')[0] ?? '';
    // `*/*` is any type. OpenAPI 3.1, Response Object.
    const isTypeDocumented =
      type in documentedResponse.content || '*/*' in documentedResponse.content;
    assert.ok(isTypeDocumented, `${method} ${route} responds with ${status} as ${type}`);
    if (!type.endsWith('json')) return;
    const schemaPath = ['paths', path, method.toLowerCase(), 'responses', status, 'content', type];
    check([...schemaPath, 'schema'], JSON.parse(response.body));
  }

  return { check, checkResponse };
}

/** Returns all examples of a media type. */
export function findExamples(document: OpenApi, { schema = {}, example, examples = {} }: Media) {
  const foundExamples: unknown[] = example === undefined ? [] : [example];
  for (const entry of Object.values(examples))
    foundExamples.push(Reflect.get(resolveReference(document, Object(entry)), 'value'));
  return [...foundExamples, ...listSchemaExamples(document, schema)];
}

/** Returns the examples of a schema, or one list for each example of its items. */
function listSchemaExamples(document: OpenApi, schema: object): unknown[] {
  const resolvedSchema = resolveReference(document, schema);
  const ownExamples = listOwnExamples(resolvedSchema);
  if (ownExamples.length > 0 || !('items' in resolvedSchema)) return ownExamples;
  return listSchemaExamples(document, Object(resolvedSchema.items)).map((item) => [item]);
}

function listOwnExamples(schema: object): unknown[] {
  const { example, examples }: { example?: unknown; examples?: unknown[] } = schema;
  return [...(example === undefined ? [] : [example]), ...(examples ?? [])];
}

/** Resolves a reference within the document. */
function resolveReference(document: OpenApi, part: object): object {
  if (!('$ref' in part)) return part;
  const keys = String(part.$ref).replace('#/', '').split('/');
  return keys.reduce<object>((parent, key) => Reflect.get(parent, key), document);
}

/** Line of the router's tree: an indent, a part of the path, and methods. */
const ROUTER_LINE = /^((?:[│ ] {3})*)[├└]── (\S*)(?: \(([A-Z, ]+)\))?$/;

/** Returns all routes of a server, such as `GET /auth/me`, from the tree that its router prints. */
export function listRoutes(app: Server): string[] {
  const routes: string[] = [];
  const parents: string[] = [];
  for (const line of app.printRoutes({ commonPrefix: false }).trimEnd().split('\n')) {
    const match = ROUTER_LINE.exec(line);
    if (match === null) throw new Error(`Unknown line of the router: ${line}`);
    const [, indent = '', part = '', methods = ''] = match;
    const depth = indent.length / 4;
    parents.length = depth;
    parents.push(part);
    const path = parents.join('');
    for (const method of methods.split(', ')) if (method !== '') routes.push(`${method} ${path}`);
  }
  return routes;
}
