import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { METHODS } from 'node:http';
import fc from 'fast-check';
import type { Browser } from '../helpers/assistant.ts';
import { person } from '../helpers/people.ts';
import type { HostileAssistant } from './hostile-assistant.ts';
import { bodyFor, headers, id, inAddress, MARK, marked, text, headerValue } from './generators.ts';

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

const OWNER = 'u-hostile-files';
const SESSION = 'c-hostile-files';

/** Names that file systems, shells and headers stumble over. */
const NAMES = [
  'notes.txt',
  'план квартири.pdf',
  'CON',
  'nul.txt',
  'a/b',
  'a\\b',
  '.',
  '..',
  '...',
  '.htaccess',
  'a.txt.',
  'a.txt ',
  'a"b.txt',
  "a'b.txt",
  'a;filename=evil.html',
  'a\r\nset-cookie: b=c',
  'gpj.\u202eexe',
  'e\u0301.txt',
  '*?<>|:',
  '-rf',
  '😀'.repeat(50),
  'x'.repeat(201),
];

const name = fc.oneof(fc.constantFrom(...NAMES), text);

/** Names of files, and what stands in files. */
export function fileCases({ app, db, secrets, signedIn, play, cases }: HostileAssistant): void {
  let browser: Browser | undefined;

  /** Signs the owner in and gives them a session, when first asked. */
  async function owner(): Promise<string> {
    if (browser === undefined) {
      browser = await signedIn(app, person(OWNER));
      secrets.add(browser.sid);
      await db
        .insertInto('conversation_sessions')
        .values({ id: SESSION, user_id: OWNER, profile_id: 'default', name: 'files' })
        .execute();
    }
    return `svc_auth_session=${browser.sid}`;
  }

  cases(
    'a file has a safe name or none, and comes back as it was sent',
    500,
    fc.record({
      segment: inAddress(name),
      content: fc.uint8Array({ maxLength: 200 }).map((one) => Buffer.from(one)),
      type: fc.constantFrom('text/html', 'application/octet-stream', 'image/svg+xml; a=b'),
    }),
    async ({ segment, content, type }) => {
      const owned = { cookie: await owner() };
      const url = `/sessions/${SESSION}/files/${segment}`;
      const payload = Buffer.concat([content, Buffer.from(MARK)]);
      const stored = await play({
        method: 'PUT',
        url,
        headers: { ...owned, 'content-type': type },
        payload,
      });
      if (![200, 201].includes(stored.statusCode)) {
        return assert.ok([400, 404, 422].includes(stored.statusCode), stored.body);
      }
      const { name: kept, media_type: mediaType } = stored.json();
      assert.doesNotMatch(kept, /[/\\\p{Cc}]|^[.\s]|[.\s]$/u);
      assert.equal(kept, kept.normalize('NFC'));

      const got = await play({ url, headers: owned });
      assert.deepEqual(got.rawPayload, payload);
      assert.equal(got.headers['content-type'], mediaType);
      assert.doesNotMatch(mediaType, /html|xml|javascript|ecmascript/);
      assert.equal(got.headers['x-content-type-options'], 'nosniff');
      const disposition = String(got.headers['content-disposition']);
      assert.match(disposition, /^attachment; filename[=*][\t\x20-\x7e\x80-\xff]+$/);
      assert.equal((await play({ method: 'DELETE', url, headers: owned })).statusCode, 200);
    },
  );
}

const EVENTS = [
  'user.blocked',
  'user.archived',
  'user.deleted',
  'session.revoked',
  'client.roles_changed',
  'client.permissions_changed',
  'auth.global_logout',
];

const event = {
  type: 'object',
  properties: {
    event: { enum: EVENTS },
    type: { enum: EVENTS },
    user_id: { type: 'string' },
    event_id: { type: 'string' },
    data: { type: 'object', properties: { user_id: { type: 'string' } } },
  },
};

/** Headers of both forms of signature, none of which is right. */
const wrongSignature = fc.oneof(
  fc.record({ 'x-webhook-signature': headerValue.map((one) => one + MARK) }, { requiredKeys: [] }),
  fc.stringMatching(/^[0-9a-f]{64}$/).map((one) => ({ 'x-webhook-signature': `sha256=${one}` })),
  fc.record(
    {
      'webhook-id': headerValue,
      'webhook-timestamp': fc.oneof(fc.nat().map(String), headerValue),
      'webhook-signature': headerValue.map((one) => `v1,${one}${MARK}`),
    },
    { requiredKeys: [] },
  ),
);

/** Webhooks that the provider did not send, and some that it should not have sent. */
export function webhookCases({ db, webhookSecret, secrets, play, cases }: HostileAssistant): void {
  cases(
    'a webhook without a right signature is 400 and changes nothing',
    1000,
    fc.record({
      body: fc.oneof(
        bodyFor(event),
        fc.uint8Array().map((one) => Buffer.from(one)),
      ),
      signature: wrongSignature,
      headers,
      query: inAddress(marked),
    }),
    async ({ body, signature, headers: sent, query }) => {
      const { statusCode } = await play({
        method: 'POST',
        url: `/webhooks/idp?${query}`,
        headers: { 'content-type': 'application/json', ...sent, ...signature },
        payload: body,
      });
      // What has no type that could be read is not looked at.
      assert.ok([400, 415].includes(statusCode), String(statusCode));
      const ledger = await db.selectFrom('webhook_events').select('id').limit(1).execute();
      assert.deepEqual(ledger, []);
    },
  );

  /** Who is meant is in the log, and so it is not marked. */
  const named = fc.oneof(text, fc.integer(), fc.constant(null), fc.constant('u-1'));
  const signedEvent = fc.oneof(
    fc.record(
      {
        event: fc.oneof(fc.constantFrom(...EVENTS), text),
        type: fc.oneof(fc.constantFrom(...EVENTS), text),
        user_id: named,
        event_id: named,
        data: fc.oneof(fc.record({ user_id: named }), fc.constant(null)),
        extra: marked,
      },
      { requiredKeys: [] },
    ),
    fc.constantFrom<unknown>(null, 1, 'text', [], {}),
  );
  cases(
    'a webhook that is signed is taken or is no event, and nothing else',
    500,
    fc.record({ value: signedEvent, cut: fc.option(fc.nat(), { freq: 5 }), isHex: fc.boolean() }),
    async ({ value, cut, isHex }) => {
      const whole = Buffer.from(JSON.stringify(value));
      const body = cut === null ? whole : whole.subarray(0, cut % (whole.length + 1));
      const signature = createHmac('sha256', webhookSecret)
        .update(body)
        .digest(isHex ? 'hex' : 'base64');
      secrets.add(signature);
      const { statusCode } = await play({
        method: 'POST',
        url: '/webhooks/idp',
        headers: { 'content-type': 'application/json', 'x-webhook-signature': signature },
        payload: body,
      });
      assert.equal(statusCode, isObject(body) ? 200 : 400);
    },
  );
}

function isObject(body: Buffer): boolean {
  try {
    const value: unknown = JSON.parse(body.toString());
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}
