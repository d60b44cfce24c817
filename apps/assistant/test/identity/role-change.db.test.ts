import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { sql } from 'kysely';
import { Browser, openAssistant } from '../helpers/assistant.ts';
import { person } from '../helpers/people.ts';

const { db, provider, instance, signedIn } = await openAssistant();
const app = await instance();

const USER = person('u-1');
const ADMIN = person('u-1', { isAdmin: true });

beforeEach(async () => {
  provider.reset();
  await db.deleteFrom('svc_users').execute();
  await db.deleteFrom('audit_log').execute();
});

const role = async () => (await db.selectFrom('svc_users').select('role').execute()).at(0)?.role;

const changes = () =>
  db
    .selectFrom('audit_log')
    .select(['actor_id', 'user_id', 'details'])
    .where('action', '=', 'role_changed')
    .execute();

/** Does some work while the audit trail takes no change of a role, as where the database is lost. */
async function withoutTrail(work: () => Promise<void>): Promise<void> {
  await sql`
    create function hang_up() returns trigger language plpgsql as $$
    begin
      raise exception 'terminating connection due to administrator command' using errcode = '57P01';
    end $$`.execute(db);
  await sql`
    create trigger hang_up before insert on audit_log
    for each row when (new.action = 'role_changed') execute function hang_up()`.execute(db);
  try {
    await work();
  } finally {
    await sql`drop function hang_up cascade`.execute(db);
  }
}

const ways: Record<string, (browser: Browser) => Promise<number>> = {
  'a sign-in': async () => (await new Browser(app).signIn(provider)).statusCode,
  'a request': async (browser) => (await browser.get('/auth/me')).statusCode,
};

for (const [name, meet] of Object.entries(ways)) {
  test(`${name} that finds a new role changes it and records it, or does neither`, async () => {
    const browser = await signedIn(app, USER);
    provider.user = ADMIN;
    await withoutTrail(async () => {
      assert.equal(await meet(browser), 503);
      assert.equal(await role(), 'user');
    });
    assert.ok((await meet(browser)) < 400);
    assert.equal(await role(), 'admin');
    await meet(browser);
    assert.deepEqual(await changes(), [
      { actor_id: null, user_id: 'u-1', details: { from: 'user', to: 'admin' } },
    ]);
  });
}

test('the role that somebody signs in with first is no change', async () => {
  await signedIn(app, ADMIN);
  assert.equal(await role(), 'admin');
  assert.deepEqual(await changes(), []);
});

test('requests of several sessions that find a new role at once record it once', async () => {
  const browsers = await Promise.all([1, 2, 3, 4].map(() => signedIn(app, USER)));
  provider.user = ADMIN;
  const answers = await Promise.all(browsers.map((browser) => browser.get('/auth/me')));
  for (const answer of answers) assert.equal(answer.json().role, 'admin');
  assert.equal((await changes()).length, 1);
});
