import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { deferCleanup, openFolder, until } from '@oselya/testing';
import { type TestDatabase } from '@oselya/testing/database';
import type { Payload } from '../../src/ingest/payload.ts';
import { start, type SharedResources } from '../../src/main.ts';
import type { Tables } from '../../src/tables.ts';
import { log, createPayload, MINIMAL_ENV } from './pipeline.ts';

/**
 * Starts a collector on a database; if undefined, on the one of `env.DATABASE_URL` or an embedded one in a new folder.
 * The collector stops after the tests of the file.
 */
export async function startCollector(
  database: TestDatabase<Tables> | undefined,
  env: Record<string, string> = {},
  shared: Pick<SharedResources, 'disk'> = {},
) {
  const collector = await start(
    {
      DATA_DIR: await openFolder(),
      ...MINIMAL_ENV,
      ...env,
    },
    { ...shared, ...(database && { database }), log },
  );
  let closePromise: Promise<void> | undefined;
  const close = () => (closePromise ??= collector.close());
  deferCleanup(close);

  async function request(
    method: string,
    path: string,
    { body, headers = {} }: { body?: unknown; headers?: Record<string, string> } = {},
  ) {
    const json = typeof body === 'string' ? body : JSON.stringify(body);
    const response = await fetch(`${collector.url}${path}`, {
      method,
      headers: json === undefined ? headers : { 'content-type': 'application/json', ...headers },
      ...(json !== undefined && { body: json }),
    });
    const text = await response.text();
    return {
      status: response.status,
      headers: response.headers,
      text,
      /** Parses the body as the expected type. */
      // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- shorter than a cast in each test
      json: <Shape>() => JSON.parse(text) as Shape,
    };
  }

  return {
    url: collector.url,
    close,
    [Symbol.asyncDispose]: close,
    get: (path: string, headers: Record<string, string> = {}) => request('GET', path, { headers }),
    post: (path: string, body?: unknown, headers: Record<string, string> = {}) =>
      request('POST', path, { body, headers }),
    put: (path: string, body?: unknown, headers: Record<string, string> = {}) =>
      request('PUT', path, { body, headers }),
    patch: (path: string, body?: unknown, headers: Record<string, string> = {}) =>
      request('PATCH', path, { body, headers }),
    delete: (path: string, headers: Record<string, string> = {}) =>
      request('DELETE', path, { headers }),
  };
}

type Collector = Pick<Awaited<ReturnType<typeof startCollector>>, 'get' | 'post'>;

/** Fields of a raw record that tests read. */
export type RawRecord = {
  raw_id: number;
  status: string;
  listing_id: number;
  error: { code: string } | null;
  model_usage: { calls: number; input_tokens: number; output_tokens: number } | null;
};

/** Sends a payload, waits until its job ends, and returns the raw record. */
export async function processPayload(collector: Collector, payload: object): Promise<RawRecord> {
  const { raw_id: rawId } = (await collector.post('/api/v1/ingest', payload)).json<RawRecord>();
  return until(`raw record ${rawId}`, async () => {
    const rawRecord = (await collector.get(`/api/v1/raw/${rawId}`)).json<RawRecord>();
    return rawRecord.status !== 'pending' && rawRecord.status !== 'processing' && rawRecord;
  });
}

/** Follows the `next` links of a list, and returns its pages. */
export async function readPages<Item>(
  collector: Pick<Collector, 'get'>,
  path: string,
): Promise<Item[][]> {
  const page = await collector.get(path);
  assert.equal(page.status, 200, page.text);
  const nextPath = /^<(.+)>; rel="next"$/.exec(page.headers.get('link') ?? '')?.[1];
  const laterPages = nextPath === undefined ? [] : await readPages<Item>(collector, nextPath);
  return [page.json<Item[]>(), ...laterPages];
}

const COLLECTOR = join(import.meta.dirname, 'collector-process.ts');

export type CollectorProcess = {
  url: string;
  /** Kills the process and waits until it has exited. */
  kill: () => Promise<void>;
};

/**
 * Starts a collector in a separate process, which exits with this process.
 * @throws Error if the collector does not start.
 */
export async function forkCollector(env: Record<string, string>): Promise<CollectorProcess> {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  const child = fork(COLLECTOR, {
    env: {
      PATH,
      NODE_COMPILE_CACHE,
      ...MINIMAL_ENV,
      LOG_LEVEL: 'silent',
      ...env,
    },
  });
  const exitPromise = once(child, 'exit');
  const firstMessage: unknown[] = await Promise.race([once(child, 'message'), exitPromise]);
  const [url] = firstMessage;
  if (typeof url !== 'string') throw new Error(`The collector did not start: ${String(url)}`);
  return {
    url,
    async kill() {
      child.kill('SIGKILL');
      await exitPromise;
    },
  };
}

export type FormFile = { name: string; bytes: Uint8Array<ArrayBuffer> };

/** Response of `POST /ingest/with-images`. */
type FormResponse = {
  status: number;
  headers: Headers;
  body: {
    raw_id: number;
    status: string;
    listing_id: number;
    images: {
      sha256?: string;
      width?: number;
      height?: number;
      duplicate?: boolean;
      error?: string;
    }[];
    code: string;
    detail: string;
    errors?: { path: string; message: string }[];
  };
};

/** Creates a form as a browser does, with the metadata before the files unless `isMetadataLast` is set. */
export function createForm(
  metadata: Payload | string,
  files: readonly FormFile[],
  { isMetadataLast = false } = {},
): FormData {
  const form = new FormData();
  const text = typeof metadata === 'string' ? metadata : JSON.stringify(metadata);
  if (!isMetadataLast) form.append('metadata', text);
  for (const { name, bytes } of files) form.append('images', new Blob([bytes]), name);
  if (isMetadataLast) form.append('metadata', text);
  return form;
}

/** Sends a form, or another body, to a collector. */
export async function sendForm(
  url: string,
  body: FormData | string | undefined,
  headers: Record<string, string> = {},
): Promise<FormResponse> {
  const response = await fetch(`${url}/api/v1/ingest/with-images`, {
    method: 'POST',
    headers,
    ...(body === undefined ? {} : { body }),
  });
  return {
    status: response.status,
    headers: response.headers,
    body: (await response.json()) as FormResponse['body'],
  };
}

export const BOUNDARY = 'oselya-boundary';

/** Content type of a form that `encodeForm` encodes. */
export const FORM_TYPE = `multipart/form-data; boundary=${BOUNDARY}`;

/** Form part, which may be malformed. */
export type Part = { headers: string; content: Buffer | string };

export const createPart = (name: string, content: Buffer | string, parameters = ''): Part => ({
  headers: `Content-Disposition: form-data; name="${name}"${parameters}`,
  content,
});

export const createImagePart = (name: string, content: Buffer | string): Part =>
  createPart('images', content, `; filename="${name}"`);

export const createMetadataPart = (...overrides: Parameters<typeof createPayload>): Part =>
  createPart('metadata', JSON.stringify(createPayload(...overrides)));

/** Encodes a form. An empty `end` leaves the form incomplete. */
export function encodeForm(parts: readonly Part[], { end = `--${BOUNDARY}--\r\n` } = {}): Buffer {
  const chunks = parts.flatMap(({ headers, content }) => [
    `--${BOUNDARY}\r\n${headers}\r\n\r\n`,
    content,
    '\r\n',
  ]);
  return Buffer.concat([...chunks, end].map((chunk) => Buffer.from(chunk)));
}

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

export type Parameter = {
  in: 'path' | 'query' | 'header';
  name: string;
  required?: boolean;
  schema: object;
};

/** A route of a collector's OpenAPI document. */
export type Route = {
  method: string;
  path: string;
  parameters: Parameter[];
  /** Media type and schema of the body, and a valid example. */
  body?: { type: string; schema: ObjectSchema; example: object };
  errorCodesByStatus: Record<string, string[]>;
};

/** Reads the routes of a collector's OpenAPI document. */
export async function readDocumentedRoutes(collector: { url: string }): Promise<Route[]> {
  const response = await fetch(`${collector.url}/openapi.json`);
  const { paths, components } = (await response.json()) as Document;
  return Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, { parameters = [], requestBody, responses }]) => ({
      method,
      path,
      parameters,
      ...(requestBody && { body: getBody(requestBody, components) }),
      errorCodesByStatus: Object.fromEntries(
        Object.entries(responses).map(([status, { content }]) => [
          status,
          Object.keys(content?.['application/problem+json']?.examples ?? {}).toSorted(),
        ]),
      ),
    })),
  );
}

function getBody(
  { content }: NonNullable<Operation['requestBody']>,
  { schemas }: Document['components'],
): NonNullable<Route['body']> {
  const [[type, mediaType] = []] = Object.entries(content);
  assert.ok(type !== undefined && mediaType !== undefined);
  const { schema: schemaReference } = mediaType;
  const schema =
    '$ref' in schemaReference
      ? schemas[schemaReference.$ref.split('/').at(-1) ?? '']
      : schemaReference;
  const example = mediaType.example ?? schema?.examples?.[0];
  assert.ok(schema !== undefined && example !== undefined, `a valid example of ${type}`);
  return { type, schema, example };
}

/** Encodes the request line and headers of a POST request. */
export function encodeRequestHead(path: string, headers: Record<string, string | number>): string {
  const lines = Object.entries({ host: 'localhost:1', ...headers }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  return `POST ${path} HTTP/1.1\r\n${lines.join('')}\r\n`;
}
