import type { AuthSession, SealedTokens } from './auth-sessions.ts';
import type { Tokens } from './provider/provider.ts';
import type { TokenVault } from './token-vault.ts';

type Place = { id: string; userId: string };

/** Seals and opens the tokens of auth sessions, each for its row and column. */
export type SessionTokens = {
  seal(tokens: Tokens, session: Place): Promise<SealedTokens>;
  openAccessToken(session: Place & Pick<AuthSession, 'accessTokenEnc'>): Promise<string>;
  /** Empty where the provider gave none. */
  openRefreshToken(session: Place & Pick<AuthSession, 'refreshTokenEnc'>): Promise<string>;
};

const place = ({ id, userId }: Place) => ({ sessionId: id, userId });

/** Joins the vault with the places of tokens in a session's row. */
export function createSessionTokens(vault: TokenVault): SessionTokens {
  return {
    async seal(tokens, session) {
      const at = place(session);
      const [accessTokenEnc, refreshTokenEnc] = await Promise.all([
        vault.seal(tokens.accessToken, { ...at, column: 'access_token_enc' }),
        vault.seal(tokens.refreshToken ?? '', { ...at, column: 'refresh_token_enc' }),
      ]);
      return { accessTokenEnc, refreshTokenEnc, expiresInSeconds: tokens.expiresInSeconds };
    },
    openAccessToken: (session) =>
      vault.open(session.accessTokenEnc, { ...place(session), column: 'access_token_enc' }),
    openRefreshToken: (session) =>
      vault.open(session.refreshTokenEnc, { ...place(session), column: 'refresh_token_enc' }),
  };
}
