import { hash } from 'node:crypto';
import type { AuthSession, SealedTokens } from './auth-sessions.sql.ts';
import type { Tokens } from './provider/provider.ts';
import type { TokenVault } from './token-vault.ts';

type Place = { id: string; userId: string };

/** Seals and opens the tokens of auth sessions, each for its row and column. */
export type SessionTokens = {
  seal(tokens: Tokens, session: Place): Promise<SealedTokens>;
  openAccessToken(session: Place & Pick<AuthSession, 'accessTokenEnc'>): Promise<string>;
  /**
   * Makes sure that the access token can be read, where it is not needed itself.
   * @throws UnreadableTokenError
   */
  checkAccessToken(session: Place & Pick<AuthSession, 'accessTokenEnc'>): Promise<void>;
  /** Undefined where none is kept. */
  openIdToken(session: Place & { idTokenEnc: string | null }): Promise<string | undefined>;
  /** Empty where the provider gave none. */
  openRefreshToken(session: Place & Pick<AuthSession, 'refreshTokenEnc'>): Promise<string>;
};

/** How many envelopes are remembered as readable; about 1 MB. */
const MAX_CHECKED = 10_000;

const place = ({ id, userId }: Place) => ({ sessionId: id, userId });

/** Joins the vault with the places of tokens in a session's row. */
export function createSessionTokens(vault: TokenVault): SessionTokens {
  // The same envelope at the same place opens with the same keys again. Digests of them are kept:
  // neither sealed tokens nor session ids lie about, and all are short.
  const checked = new Set<string>();

  const openAccessToken: SessionTokens['openAccessToken'] = (session) =>
    vault.open(session.accessTokenEnc, { ...place(session), column: 'access_token_enc' });

  return {
    async seal(tokens, session) {
      const at = place(session);
      const { idToken, expiresInSeconds, providerSessionId } = tokens;
      const [accessTokenEnc, refreshTokenEnc, idTokenEnc] = await Promise.all([
        vault.seal(tokens.accessToken, { ...at, column: 'access_token_enc' }),
        vault.seal(tokens.refreshToken ?? '', { ...at, column: 'refresh_token_enc' }),
        idToken === undefined ? undefined : vault.seal(idToken, { ...at, column: 'id_token_enc' }),
      ]);
      return { accessTokenEnc, refreshTokenEnc, idTokenEnc, expiresInSeconds, providerSessionId };
    },
    openAccessToken,
    async checkAccessToken(session) {
      const { id, userId, accessTokenEnc } = session;
      const envelope = hash('sha256', JSON.stringify([id, userId, accessTokenEnc]), 'base64url');
      if (checked.has(envelope)) return;
      await openAccessToken(session);
      const [oldest] = checked;
      if (oldest !== undefined && checked.size >= MAX_CHECKED) checked.delete(oldest);
      checked.add(envelope);
    },
    openIdToken: async (session) =>
      session.idTokenEnc === null
        ? undefined
        : vault.open(session.idTokenEnc, { ...place(session), column: 'id_token_enc' }),
    openRefreshToken: (session) =>
      vault.open(session.refreshTokenEnc, { ...place(session), column: 'refresh_token_enc' }),
  };
}
