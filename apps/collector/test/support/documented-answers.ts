import assert from 'node:assert/strict';

/** A schema of an object, as far as tests look at it. */
type ObjectSchema = { properties: Readonly<Record<string, object>>; examples?: object[] };

type Operation = {
  parameters?: Parameter[];
  requestBody?: {
    content: Record<string, { schema: ObjectSchema | { $ref: string }; example?: object }>;
  };
  responses: Record<string, { content?: Record<string, { examples?: Record<string, object> }> }>;
};

type Document = {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, ObjectSchema> };
};

/** A value beside the body of a request. */
export type Parameter = {
  in: 'path' | 'query' | 'header';
  name: string;
  required?: boolean;
  schema: object;
};

/** What a collector's OpenAPI document says of a route. */
export type Route = {
  method: string;
  path: string;
  parameters: Parameter[];
  /** Of the body: its media type, its schema and a good one. */
  body?: { type: string; schema: ObjectSchema; example: object };
  /** What it can be answered: the codes of errors by status. */
  answers: Record<string, string[]>;
};

/** The routes of a collector's OpenAPI document. */
export async function documentedRoutes(collector: { url: string }): Promise<Route[]> {
  const response = await fetch(`${collector.url}/openapi.json`);
  const { paths, components } = (await response.json()) as Document;
  return Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, { parameters = [], requestBody, responses }]) => ({
      method,
      path,
      parameters,
      ...(requestBody && { body: bodyOf(requestBody, components) }),
      answers: Object.fromEntries(
        Object.entries(responses).map(([status, { content }]) => [
          status,
          Object.keys(content?.['application/problem+json']?.examples ?? {}).toSorted(),
        ]),
      ),
    })),
  );
}

function bodyOf(
  { content }: NonNullable<Operation['requestBody']>,
  { schemas }: Document['components'],
): NonNullable<Route['body']> {
  const [[type, described] = []] = Object.entries(content);
  assert.ok(type !== undefined && described !== undefined);
  const { schema: named } = described;
  const schema = '$ref' in named ? schemas[named.$ref.split('/').at(-1) ?? ''] : named;
  const example = described.example ?? schema?.examples?.[0];
  assert.ok(schema !== undefined && example !== undefined, `a good body of ${type}`);
  return { type, schema, example };
}

/** What a POST can be answered, as `documentedRoutes` gives it. */
export async function documentedAnswers(
  collector: { url: string },
  path: string,
): Promise<Record<string, string[]>> {
  const routes = await documentedRoutes(collector);
  return routes.find((route) => route.path === path && route.method === 'post')?.answers ?? {};
}
