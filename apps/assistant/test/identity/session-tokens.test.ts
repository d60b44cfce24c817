import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSessionTokens } from '../../src/identity/session-tokens.ts';
import {
  createTokenVault,
  type TokenVault,
  UnreadableTokenError,
} from '../../src/identity/token-vault.ts';

const tokens = { accessToken: 'access', refreshToken: 'refresh', expiresInSeconds: 60 };
const place = { id: 's-1', userId: 'u-1' };

/** Session tokens, and how often their vault opened something. */
function counted() {
  const vault = createTokenVault(Buffer.alloc(32, 7));
  let opened = 0;
  const counting: TokenVault = {
    seal: (...args) => vault.seal(...args),
    open: (...args) => {
      opened += 1;
      return vault.open(...args);
    },
  };
  return { sessionTokens: createSessionTokens(counting), opened: () => opened };
}

test('an access token that was found readable is not opened to find it so again', async () => {
  const { sessionTokens, opened } = counted();
  const session = { ...place, ...(await sessionTokens.seal(tokens, place)) };
  for (let time = 0; time < 3; time += 1) await sessionTokens.checkAccessToken(session);
  assert.equal(opened(), 1);
  const renewed = { ...place, ...(await sessionTokens.seal(tokens, place)) };
  await sessionTokens.checkAccessToken(renewed);
  assert.equal(opened(), 2, 'another envelope is looked at for itself');
});

test('one that cannot be read never counts as readable', async () => {
  const { sessionTokens, opened } = counted();
  const session = { ...place, ...(await sessionTokens.seal(tokens, place)) };
  await sessionTokens.checkAccessToken(session);
  for (const moved of [
    { ...session, id: 's-2' },
    { ...session, userId: 'u-2' },
    { ...session, accessTokenEnc: session.refreshTokenEnc },
  ]) {
    const before = opened();
    for (let time = 0; time < 2; time += 1) {
      await assert.rejects(sessionTokens.checkAccessToken(moved), UnreadableTokenError);
    }
    assert.equal(opened(), before + 2);
  }
});

test('what is remembered is short, and holds neither the session nor its tokens', async (context) => {
  const { sessionTokens } = counted();
  const session = { ...place, ...(await sessionTokens.seal(tokens, place)) };
  const add = context.mock.method(Set.prototype, 'add');
  await sessionTokens.checkAccessToken(session);
  const remembered = add.mock.calls.flatMap(({ arguments: [value] }) =>
    typeof value === 'string' ? [value] : [],
  );
  assert.ok(remembered.length > 0);
  for (const text of remembered) {
    assert.ok(text.length <= 64, text);
    assert.ok(!text.includes(session.id) && !text.includes(session.accessTokenEnc));
  }
});
