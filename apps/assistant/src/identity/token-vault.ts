import { createHash } from 'node:crypto';
import { CompactEncrypt, compactDecrypt } from 'jose';
import type { Tokens } from './provider/provider.ts';
import type { SealedTokens } from './auth-sessions.ts';

type Column = 'access_token_enc' | 'refresh_token_enc' | 'id_token_enc';

/** The auth session whose row contains a token. */
type Owner = { id: string; userId: string };

/** The error for a stored token that cannot be decrypted in its row and column. */
export class UnreadableTokenError extends Error {
  override readonly name = 'UnreadableTokenError';

  constructor() {
    super('A stored token cannot be decrypted: SVC_AUTH_ENCRYPTION_KEY or the row has changed');
  }
}

/** Encryption and decryption of the tokens of auth sessions. */
export type TokenVault = ReturnType<typeof createTokenVault>;

/**
 * Creates the token vault. It uses compact JWE (RFC 7516) with `dir` and `A256GCM`. The header contains the key ID for
 * rotation, and a digest of session, user and column that binds the token to its row. Specification 000, Auth session
 * record.
 * @param current Key for encryption and decryption: 32 bytes as base64url.
 * @param earlier Keys for decryption only.
 */
export function createTokenVault(current: string, earlier: readonly string[] = []) {
  const keys = new Map([...earlier, current].map(decodeKey).map((key) => [keyId(key), key]));
  const currentKey = decodeKey(current);
  const kid = keyId(currentKey);

  const seal = (token: string, owner: Owner, column: Column): Promise<string> =>
    new CompactEncrypt(new TextEncoder().encode(token))
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM', kid, place: placeOf(owner, column) })
      .encrypt(currentKey);

  return {
    /** Encrypts tokens for the row of an auth session. */
    async sealTokens(tokens: Tokens, owner: Owner): Promise<SealedTokens> {
      const { accessToken, refreshToken = '', idToken, ...rest } = tokens;
      return {
        ...rest,
        accessTokenEnc: await seal(accessToken, owner, 'access_token_enc'),
        refreshTokenEnc: await seal(refreshToken, owner, 'refresh_token_enc'),
        ...(idToken !== undefined && { idTokenEnc: await seal(idToken, owner, 'id_token_enc') }),
      };
    },

    /**
     * Decrypts a token of an auth session's row.
     * @throws UnreadableTokenError
     */
    async open(sealed: string, owner: Owner, column: Column): Promise<string> {
      try {
        const { plaintext, protectedHeader } = await compactDecrypt(
          sealed,
          (header) => {
            const key = keys.get(header.kid ?? '');
            if (key === undefined) throw new UnreadableTokenError();
            return key;
          },
          {
            keyManagementAlgorithms: ['dir'],
            contentEncryptionAlgorithms: ['A256GCM'],
            maxDecompressedLength: 0,
          },
        );
        if (protectedHeader['place'] !== placeOf(owner, column)) throw new UnreadableTokenError();
        return new TextDecoder().decode(plaintext);
      } catch {
        // The underlying error may quote the token.
        throw new UnreadableTokenError();
      }
    },
  };
}

/** Computes the ID of a key: the first 16 characters of its digest. */
function keyId(key: Uint8Array): string {
  return createHash('sha256').update(key).digest('base64url').slice(0, 16);
}

function placeOf({ id, userId }: Owner, column: Column): string {
  const place = ['user_auth_sessions', column, id, userId];
  return createHash('sha256').update(JSON.stringify(place)).digest('base64url');
}

const decodeKey = (text: string) => new Uint8Array(Buffer.from(text, 'base64url'));
