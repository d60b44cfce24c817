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

test('a sign-in that was stored without an answer ends: nobody has its cookie', async () => {
  const revoked: EndedSession[] = [];
  const finish = createFinishSignIn({
    db: unheardOnce(db),
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
    revocations: { add: (sessions) => void revoked.push(...sessions) },
    metrics: { countEnded: () => undefined },
    lifetimeDays: 30,
  });
  const login = {
    state: 's',
    codeVerifier: 'v',
    platform: null,
    browserId: 'b',
    earlierSessionId: null,
    terminal: null,
  };
  const client = { userAgent: null, address: null };
  const finished = finish(login, { code: 'c' }, { sessionId: null, client });
  await assert.rejects(finished, { code: 'DATABASE_UNREACHABLE' });
  assert.deepEqual(await db.selectFrom('user_auth_sessions').select('id').execute(), []);
  const lines = db.selectFrom('audit_log').select(['action', 'details']).orderBy('id');
  assert.partialDeepStrictEqual(await lines.execute(), [
    { action: 'signed_in' },
    { action: 'signed_out', details: { reason: 'sign_in_failed' } },
  ]);
  const [session] = revoked;
  assert.ok(session);
  assert.equal(await tokens.openRefreshToken(session), 'refresh');
});
