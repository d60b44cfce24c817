import assert from 'node:assert/strict';
import { METHODS } from 'node:http';
import fc from 'fast-check';
import type { Browser } from '../helpers/assistant.ts';
import { person } from '../helpers/people.ts';
import { bodyFor } from './json-bodies.ts';
import type { HostileAssistant } from './hostile-assistant.ts';
import { headers, id, inAddress, MARK, marked } from './text.ts';

/** What the OpenAPI document says of a route, as far as requests are made of it. */
type Operation = {
  parameters?: { in: string; name: string; schema: object }[];
  requestBody?: { content: Record<string, { schema?: object }> };
  responses: Record<string, unknown>;
};

/** The answers to an address that is no route's: one that is broken, or that became another's, perhaps of other methods. */
const ofNoRoute = (address: string) => (isWellFormed(address) ? ['404', '405'] : ['400']);

function isWellFormed(address: string): boolean {
  try {
    decodeURIComponent(address);
    return true;
  } catch {
    return false;
  }
}

const OWN = 'u-hostile';
const ADMIN = 'u-hostile-admin';

/** Requests to every route of the assistant, by nobody, a user and an admin. */
export async function routeCases(assistant: HostileAssistant): Promise<void> {
  const { app, db, secrets, signedIn, play, cases, row } = assistant;
  const document: { paths: Record<string, Record<string, Operation>> } = JSON.parse(
    JSON.stringify(app.swagger()),
  );
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      path,
      method: method.toUpperCase(),
      operation,
    })),
  );

  const browsers = new Map<string, Browser>();

  /** Somebody who is signed in, again where what was played before ended that. */
  async function cookieOf(userId: string): Promise<string> {
    const known = browsers.get(userId);
    if (known !== undefined && (await row(known.sid)) !== undefined) {
      return `svc_auth_session=${known.sid}`;
    }
    const browser = await signedIn(app, person(userId, { isAdmin: userId === ADMIN }));
    secrets.add(browser.sid);
    browsers.set(userId, browser);
    return `svc_auth_session=${browser.sid}`;
  }

  await db
    .insertInto('conversation_sessions')
    .values([
      { id: 'c-own', user_id: OWN, profile_id: 'default', name: `name ${MARK}` },
      { id: 'c-other', user_id: 'u-1', profile_id: 'default', name: `name ${MARK}` },
      { id: 'c-legacy', user_id: null, profile_id: null, name: null },
    ])
    .execute();
  await db
    .insertInto('conversation_messages')
    .values({ session_id: 'c-own', role: 'user', content: `message ${MARK}` })
    .execute();

  const segment = fc.oneof(
    fc.constantFrom('c-own', 'c-other', 'c-legacy', OWN, ADMIN, 'default', 'notes.txt', 'home'),
    inAddress(marked),
    id,
  );
  const queryValue = fc.oneof(
    inAddress(marked),
    fc.constantFrom('1', '0', '-1', '20', '1e400', 'all', 'own', '2026-01-01T00:00:00Z', OWN),
    fc.jsonValue().map((value) => Buffer.from(JSON.stringify(value)).toString('base64url')),
  );

  /** A request to a route, with whatever stands in the places that it has. */
  const requestTo = ({ path, method, operation }: (typeof operations)[number]) => {
    const names = (operation.parameters ?? []).filter((one) => one.in === 'query');
    const name = fc.oneof(
      fc.constantFrom(...names.map((one) => one.name), 'limit', 'cursor'),
      inAddress(marked),
    );
    const [type = 'application/json', media] =
      Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
    return fc.record({
      path: fc.constant(path),
      method: fc.constantFrom(method, method, method, method === 'GET' ? 'HEAD' : method),
      responses: fc.constant(Object.keys(operation.responses)),
      segments: fc.array(segment, { minLength: 3, maxLength: 3 }),
      query: fc.array(fc.tuple(name, queryValue), { maxLength: 4 }),
      headers: fc.oneof(fc.constant({}), headers),
      type: fc.constantFrom(type, type, type, 'text/plain', ''),
      // Whoever takes no body may be sent one all the same.
      body: fc.option(bodyFor(media?.schema ?? {}), { freq: media === undefined ? 2 : 8 }),
      who: fc.constantFrom(undefined, OWN, OWN, ADMIN, ADMIN),
    });
  };

  cases(
    'every route answers what its description says',
    2200,
    fc.constantFrom(...operations).chain(requestTo),
    async ({ path, method, responses, segments, query, headers: sent, type, body, who }) => {
      const places = [...segments];
      const address = path.replaceAll(/\{\w+\}/g, () => places.pop() ?? '');
      const search = query.map(([name, value]) => `${name}=${value}`).join('&');
      const { statusCode } = await play({
        method,
        url: search === '' ? address : `${address}?${search}`,
        headers: {
          ...(type !== '' && body !== null && { 'content-type': type }),
          ...sent,
          ...(who !== undefined && { cookie: await cookieOf(who) }),
        },
        ...(body !== null && { payload: body }),
      });
      const described = [...responses, ...ofNoRoute(address)].includes(String(statusCode));
      assert.ok(described, `${method} ${path} answers ${statusCode}, which is not described`);
    },
  );

  cases(
    'addresses that do not exist are nobody’s',
    700,
    fc.record({
      method: fc.constantFrom(...METHODS.filter((one) => one !== 'CONNECT')),
      segments: fc.array(
        fc.oneof(
          segment,
          fc.constantFrom('auth', 'admin', 'sessions', 'files', 'docs', '..', '.', '', 'static'),
        ),
        { maxLength: 5 },
      ),
      headers,
      who: fc.constantFrom(undefined, OWN, ADMIN),
    }),
    async ({ method, segments, headers: sent, who }) => {
      const url = `/${segments.join('/')}`;
      // After a slash and a backslash an address goes on with a host, and no request can be made of one
      // that is none. What comes over a socket is played by raw-http.ts.
      if (!URL.canParse(url, 'http://localhost')) return;
      const cookie = who === undefined ? '' : await cookieOf(who);
      await play({ method, url, headers: { ...sent, cookie } });
    },
  );
}
