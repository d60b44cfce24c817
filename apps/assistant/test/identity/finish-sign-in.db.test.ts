import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger } from '@oselya/kit';
import type { EndedSession } from '../../src/identity/auth-sessions.sql.ts';
import { createFinishSignIn } from '../../src/identity/finish-sign-in.ts';
import { createSessionTokens } from '../../src/identity/session-tokens.ts';
import { createTokenVault } from '../../src/identity/token-vault.ts';
import { openAssistant } from '../helpers/assistant.ts';
import { userOf } from '../helpers/people.ts';
import { unheardOnce } from '../helpers/unheard-once.ts';

const { db } = await openAssistant();
const tokens = createSessionTokens(createTokenVault(Buffer.alloc(32, 7)));

const login = {
  state: 's',
  codeVerifier: 'v',
  platform: null,
  browserId: 'b',
  earlierSessionId: null,
  terminal: null,
};
const terminal = { port: 5000, state: 's', code_challenge: 'c' };
const visitor = { sessionId: null, client: { userAgent: null, address: null } };

/** Finishes sign-ins of u-olena, whose tokens it gives back where they are to be revoked. */
function finishing({ on = db } = {}) {
  const revoked: EndedSession[] = [];
  const finish = createFinishSignIn({
    db: on,
    log: createLogger({ level: 'silent', service: 'test' }),
    provider: {
      prepare: async () => undefined,
      redeem: async () => ({
        accessToken: 'access',
        refreshToken: 'refresh',
        expiresInSeconds: 60,
        subject: 'u-olena',
      }),
      fetchUser: async () => userOf('u-olena'),
    },
    tokens,
    revocations: {
      add: async (_db, sessions) => void revoked.push(...sessions),
      wake: () => undefined,
    },
    metrics: { countEnded: () => undefined },
    lifetime: { lifetimeDays: 30, idleDays: 0 },
  });
  return { finish, revoked };
}

const sessions = () => db.selectFrom('user_auth_sessions').select('id').execute();
const auditLines = () =>
  db.selectFrom('audit_log').select(['action', 'details']).orderBy('id').execute();

test('a sign-in that was stored without an answer ends: nobody has its cookie', async () => {
  const { finish, revoked } = finishing({ on: unheardOnce(db) });
  await assert.rejects(finish(login, { code: 'c' }, visitor), { code: 'DATABASE_UNREACHABLE' });
  assert.deepEqual(await sessions(), []);
  assert.partialDeepStrictEqual(await auditLines(), [
    { action: 'signed_in' },
    { action: 'signed_out', details: { reason: 'sign_in_failed' } },
  ]);
  const [session] = revoked;
  assert.ok(session);
  assert.equal(await tokens.openRefreshToken(session), 'refresh');
});

test('a session for a terminal is stored with what waits for its person, or not at all', async () => {
  const { finish, revoked } = finishing();
  const linesBefore = await auditLines();
  const asked = { ...login, platform: 'terminal' as const };
  const tooLarge = { ...asked, terminal: { ...terminal, port: 2 ** 40 } };
  await assert.rejects(finish(tooLarge, { code: 'c' }, visitor), /out of range/);
  assert.deepEqual(await sessions(), []);
  assert.deepEqual(await auditLines(), linesBefore);
  assert.equal(revoked.length, 1);

  const { sessionId, terminalSignInId } = await finish(
    { ...asked, terminal },
    { code: 'c' },
    visitor,
  );
  const waiting = db.selectFrom('terminal_sign_ins').select(['id', 'auth_session_id', 'port']);
  assert.deepEqual(await waiting.execute(), [
    { id: terminalSignInId, auth_session_id: sessionId, port: 5000 },
  ]);
});
