import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { InjectOptions } from 'fastify';
import { errors } from '../../src/errors.ts';
import { openAssistant } from '../helpers/assistant.ts';
import { createSecrets } from './generators.ts';

const WEBHOOK_SECRET = 'webhook secret, with: odd/characters';

/** See {@link openHostileAssistant}. */
export type HostileAssistant = Awaited<ReturnType<typeof openHostileAssistant>>;

/** How a request is given to the assistant without a network between. */
type Request = {
  method?: string;
  url: string;
  headers?: Record<string, string>;
  payload?: string | Buffer;
};

/** Where the assistant may send a browser beside the provider: to itself. */
const OWN_TARGET =
  /^(\/|\/auth\/mobile-done\?sid=[\w-]{43}|\/docs\/(static\/)?index\.html|\/docs\/)$/;

/**
 * Opens an assistant for hostile requests: each gets a client error or the requested answer, and neither answers nor the
 * log reveal a secret.
 * @param scale Share of the generated cases that are played.
 */
export async function openHostileAssistant(scale: number) {
  const assistant = await openAssistant({
    IDP_WEBHOOK_SECRET: WEBHOOK_SECRET,
    IDP_USER_MAX_AGE_SECONDS: '3600',
    // Everything comes from one address, and more of it than from any people.
    LOGIN_PER_MINUTE: '0',
    SOCKETS_PER_ADDRESS: '10000',
    SOCKETS_PER_USER: '10000',
  });
  const { provider, lines, settings } = assistant;
  const app = await assistant.instance();
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  const secrets = createSecrets({
    fixed: [WEBHOOK_SECRET, provider.client.secret, settings()['SVC_AUTH_ENCRYPTION_KEY'] ?? ''],
    issued: provider.issued,
  });
  let played = 0;

  /** Fails unless an answer is a proper one: no failure, a problem or a page, nowhere else to go. */
  function check(
    { method = 'GET', url: address }: Request,
    answer: {
      statusCode: number;
      headers: { location?: string | undefined; 'content-type'?: string | undefined };
      body: string;
    },
  ): void {
    const { statusCode, headers, body } = answer;
    const where = `${method} ${address}: ${statusCode} ${body.slice(0, 500)}`;
    assert.ok(statusCode < 500, where);
    secrets.checkAnswer(body);
    const { location, 'content-type': type = '' } = headers;
    if (location !== undefined) assert.ok(isAllowedTarget(location), `${where} ${location}`);
    if (statusCode < 400 || method === 'HEAD') return;
    if (type.startsWith('text/html')) return assert.match(body, /^<!doctype html>/i, where);
    assert.match(type, /^application\/problem\+json/, where);
    const problem = JSON.parse(body);
    assert.equal(problem.status, statusCode, where);
    assert.ok(Object.hasOwn(errors, problem.code), where);
  }

  function isAllowedTarget(location: string): boolean {
    if (OWN_TARGET.test(location)) return true;
    if (!location.startsWith(`${provider.url}/oauth/authorize?`)) return false;
    const { searchParams, hash } = new URL(location);
    return (
      searchParams.get('redirect_uri') === 'http://assistant.test/auth/callback' &&
      searchParams.get('return_to') === '/' &&
      hash === ''
    );
  }

  /** Sends a request and checks its answer. */
  async function play(request: Request) {
    // The types of `inject` know the common methods only; what it takes is any of Node's.
    const answer = await app.inject(request as InjectOptions);
    check(request, answer);
    return answer;
  }

  /** Tests a property on generated cases, after each of which the log is looked through. */
  function cases<Value>(
    name: string,
    count: number,
    values: fc.Arbitrary<Value>,
    work: (value: Value) => Promise<void>,
  ): void {
    test(name, async () => {
      lines.length = 0;
      const property = fc.asyncProperty(values, async (value) => {
        await work(value);
        for (const line of lines.splice(0)) secrets.checkLog(line);
        played += 1;
      });
      await fc.assert(property, { numRuns: Math.ceil(count * scale) });
    });
  }

  return {
    ...assistant,
    app,
    /** Where it listens, for what needs a network. */
    url,
    webhookSecret: WEBHOOK_SECRET,
    secrets,
    check,
    play,
    cases,
    /** How many generated cases came through so far. */
    played: () => played,
  };
}
