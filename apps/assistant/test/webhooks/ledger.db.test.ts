import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { Browser, openAssistant } from '../helpers/assistant.ts';
import { OLENA } from '../scripted-provider.ts';
import { SECRET, send } from './sender.ts';

const { db, provider, instance } = await openAssistant({ IDP_WEBHOOK_SECRET: SECRET });
const app = await instance();

beforeEach(async () => {
  provider.reset();
  await db.deleteFrom('webhook_events').execute();
});

async function admin(): Promise<Browser> {
  provider.user = {
    ...OLENA,
    sub: 'u-admin',
    client_access_list: [{ client_id: 'oselya', role_ids: ['svc_admin'], permission_ids: [] }],
  };
  const browser = new Browser(app);
  await browser.signIn(provider);
  return browser;
}

type Row = { id: number; delivery_id: string };

/** Goes through all pages as a client does, by their links. */
async function pages(browser: Browser, first: string): Promise<Row[][]> {
  const all: Row[][] = [];
  let next: string | undefined = first;
  while (next !== undefined) {
    const answer = await browser.get(next);
    assert.equal(answer.statusCode, 200);
    all.push(answer.json());
    next = /^<(.+)>; rel="next"$/.exec(String(answer.headers['link']))?.[1];
  }
  return all;
}

test('admins read the ledger, newest first', async () => {
  const browser = await admin();
  await send(app, { event: 'user.blocked', user_id: 'u-7' }, 'msg_1');
  await send(app, { user_id: 'u-7' }, 'msg_2');
  const [second, first] = (await browser.get('/admin/webhooks')).json();
  assert.match(first.received_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.match(first.body_sha256, /^[0-9a-f]{64}$/);
  assert.deepEqual(first, {
    id: first.id,
    received_at: first.received_at,
    delivery_id: 'msg_1',
    signature: 'standard',
    event: 'user.blocked',
    user_id: 'u-7',
    outcome: 'applied',
    sessions_ended: 0,
    body_sha256: first.body_sha256,
  });
  assert.deepEqual([second.delivery_id, second.event, second.outcome], ['msg_2', null, 'ignored']);
});

test('the pages hold every row once, while new ones come in', async () => {
  const browser = await admin();
  for (let n = 1; n <= 7; n += 1) await send(app, { event: 'any' }, `msg_${n}`);
  const [first = [], ...rest] = await pages(browser, '/admin/webhooks?limit=3');
  await send(app, { event: 'any' }, 'msg_8');
  assert.deepEqual(
    [first, ...rest].map((page) => page.map((row) => row.delivery_id)),
    [['msg_7', 'msg_6', 'msg_5'], ['msg_4', 'msg_3', 'msg_2'], ['msg_1']],
  );
  assert.equal((await browser.get('/admin/webhooks')).headers['link'], undefined);
});

for (const query of ['cursor=x', 'cursor=MA', 'cursor=ImEi', 'limit=0', 'limit=201', 'limit=x']) {
  test(`the query ${query} is 422`, async () => {
    const browser = await admin();
    assert.equal((await browser.get(`/admin/webhooks?${query}`)).statusCode, 422);
  });
}

const holds = (slug: string) => ({
  ...OLENA,
  client_access_list: [{ client_id: 'oselya', role_ids: ['svc_user'], permission_ids: [slug] }],
});

test('others do not read it without svc.admin.access', async () => {
  assert.equal((await app.inject('/admin/webhooks')).statusCode, 401);
  const browser = new Browser(app);
  provider.user = holds('svc.debug.access');
  await browser.signIn(provider);
  assert.equal((await browser.get('/admin/webhooks')).json().code, 'permission_missing');
  provider.user = holds('svc.admin.access');
  assert.equal((await browser.get('/admin/webhooks')).statusCode, 200);
});
