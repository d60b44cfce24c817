import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createOfflineDatabase } from '@oselya/db';
import { createLogger } from '@oselya/kit';
import { Validator } from '@seriousme/openapi-schema-validator';
import { createApp } from '../src/app.ts';
import { readConfig } from '../src/config.ts';
import { errors } from '../src/errors.ts';
import type { Tables } from '../src/tables.ts';
import {
  createDocumentChecker,
  toDocumentPath,
  findExamples,
  type Media,
  type OpenApi,
  listRoutes,
} from './helpers/openapi.ts';

/** Routes of pages, documents and metrics, which the document omits. */
const HIDDEN_ROUTES = /^\w+ \/(favicon\.ico|(open|async)api\.json|metrics|docs(\/.*)?)?$/;

const app = await createApp({
  config: readConfig({ SVC_AUTH_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64url') }),
  database: createOfflineDatabase<Tables>(),
  log: createLogger({ level: 'silent', service: 'test' }),
  hasConsole: false,
});
after(() => app.close());

const text = JSON.stringify(app.swagger());
const document: OpenApi = JSON.parse(text);
const { check } = createDocumentChecker(document);

const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
);

/** Bodies of all requests and responses, with their JSON paths in the document. */
const bodies = operations.flatMap(({ path, method, operation }) => {
  const operationPath = ['paths', path, method];
  const requests = Object.entries(operation.requestBody?.content ?? {}).map(([type, media]) => ({
    path: [...operationPath, 'requestBody', 'content', type],
    media,
    status: undefined,
  }));
  const answers = Object.entries(operation.responses).flatMap(([status, { content = {} }]) =>
    Object.entries(content).map(([type, media]) => ({
      path: [...operationPath, 'responses', status, 'content', type],
      media,
      status: Number(status),
    })),
  );
  return [...requests, ...answers];
});

test('The document is valid OpenAPI 3.1', async () => {
  const result = await new Validator().validate(JSON.parse(text));
  assert.deepEqual(result.errors ?? [], []);
  assert.ok(result.valid);
  assert.match(String(Reflect.get(document, 'openapi')), /^3\.1\./);
});

test('Every route is described, except pages', () => {
  const describedRoutes = operations.map(({ path, method }) => `${method.toUpperCase()} ${path}`);
  const registeredRoutes = listRoutes(app)
    .filter((route) => !route.startsWith('HEAD ') && !HIDDEN_ROUTES.test(route))
    .map(toDocumentPath);
  assert.deepEqual(describedRoutes.toSorted(), registeredRoutes.toSorted());
});

test('Every route has a summary and described tags, and every status a description and a body', () => {
  const tagNames = new Set(document.tags.map(({ name }) => name));
  for (const { path, method, operation } of operations) {
    assert.ok(operation.summary, `${method} ${path} has no summary`);
    assert.ok(operation.tags?.length, `${method} ${path} has no tag`);
    for (const tag of operation.tags) assert.ok(tagNames.has(tag), `${tag} of ${path}`);
    for (const [status, { description, content }] of Object.entries(operation.responses)) {
      const location = `${method} ${path} ${status}`;
      assert.ok(!['', 'Default Response'].includes(description), `${location} has no description`);
      // Informational responses and redirects have no body.
      if (/^[13]/.test(status)) continue;
      const media: Media[] = Object.values(content ?? {});
      assert.ok(media.length > 0, `${location} has no body`);
      for (const { schema } of media) assert.ok(schema, `${location} has no schema`);
    }
  }
});

test('Every route for signed-in users describes the errors of sign-in', () => {
  const guardedOperations = operations.filter(
    ({ operation: { security } }) => security?.every((scheme) => 'session' in scheme) === true,
  );
  assert.ok(guardedOperations.length > 20);
  for (const { path, method, operation } of guardedOperations) {
    const describedCodes = new Set(
      Object.values(operation.responses).flatMap(({ content }) =>
        Object.keys(content?.['application/problem+json']?.examples ?? {}),
      ),
    );
    for (const code of ['not_signed_in', 'provider_unavailable', 'user_without_email']) {
      assert.ok(describedCodes.has(code), `${method} ${path} does not describe ${code}`);
    }
  }
});

test('Every body has valid examples', () => {
  for (const { path, media, status } of bodies) {
    if (!path.at(-1)?.endsWith('json')) continue;
    const location = path.slice(1).join(' ');
    const examples = findExamples(document, media);
    assert.ok(examples.length > 0, `${location} has no example`);
    for (const example of examples) {
      check([...path, 'schema'], example);
      if (status === undefined || status < 400 || path.at(-1) === 'application/json') continue;
      const code = String(Reflect.get(Object(example), 'code'));
      const definition = Object.entries(errors).find(([errorCode]) => errorCode === code)?.[1];
      assert.equal(
        definition?.status,
        status,
        `${location}: ${code} is not an error with that status`,
      );
    }
  }
});
