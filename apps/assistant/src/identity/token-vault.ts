import { hash } from 'node:crypto';
import { CompactEncrypt, compactDecrypt } from 'jose';
import { sql } from 'kysely';
import type { Tokens } from './provider/provider.ts';

type Column = 'access_token_enc' | 'refresh_token_enc' | 'id_token_enc';

type TokenRow = { id: string; user_id: string };

/** Error for a stored token that cannot be decrypted in its row and column. */
export class UnreadableTokenError extends Error {
  override readonly name = 'UnreadableTokenError';

  constructor() {
    super('A stored token cannot be decrypted: SVC_AUTH_ENCRYPTION_KEY or the row has changed');
  }
}

/**
 * Creates the token vault, which uses compact JWE (RFC 7516) with `dir` and `A256GCM`. The header contains the ID of
 * the key, and a digest that binds the token to its row and column. Specification 000, Auth session record.
 * @param currentKey Key for encryption and decryption: 32 bytes as base64url.
 * @param oldKeys Keys for decryption only.
 */
export function createTokenVault(currentKey: string, oldKeys: readonly string[]) {
  const keys = new Map([...oldKeys, currentKey].map((key) => [computeKeyId(key), decodeKey(key)]));
  const kid = computeKeyId(currentKey);
  const encryptionKey = decodeKey(currentKey);

  const sealToken = (token: string, owner: TokenRow, column: Column): Promise<string> =>
    new CompactEncrypt(new TextEncoder().encode(token))
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM', kid, place: hashBinding(owner, column) })
      .encrypt(encryptionKey);

  return {
    /** Encrypts tokens, and returns the columns to store in the row of an auth session. */
    async seal(tokens: Tokens, owner: TokenRow) {
      const { accessToken, refreshToken = '', idToken, expiresInSeconds: seconds } = tokens;
      const { providerSessionId } = tokens;
      return {
        access_token_enc: await sealToken(accessToken, owner, 'access_token_enc'),
        refresh_token_enc: await sealToken(refreshToken, owner, 'refresh_token_enc'),
        expires_at:
          seconds === undefined ? null : sql<Date>`now() + make_interval(secs => ${seconds})`,
        ...(providerSessionId !== undefined && { provider_session_id: providerSessionId }),
        ...(idToken !== undefined && {
          id_token_enc: await sealToken(idToken, owner, 'id_token_enc'),
        }),
      };
    },

    /** Decrypts a token of an auth session's row, or throws UnreadableTokenError. */
    async open<Name extends Column>(
      row: TokenRow & Record<Name, string>,
      column: Name,
    ): Promise<string> {
      try {
        const { plaintext, protectedHeader } = await compactDecrypt(
          row[column],
          ({ kid: id = '' }) => keys.get(id) ?? Promise.reject(new UnreadableTokenError()),
          {
            keyManagementAlgorithms: ['dir'],
            contentEncryptionAlgorithms: ['A256GCM'],
            maxDecompressedLength: 0,
          },
        );
        if (protectedHeader['place'] !== hashBinding(row, column)) throw new UnreadableTokenError();
        return new TextDecoder().decode(plaintext);
      } catch {
        // The underlying error may quote the token, so it is not attached as the cause.
        throw new UnreadableTokenError();
      }
    },
  };
}

const decodeKey = (key: string) => new Uint8Array(Buffer.from(key, 'base64url'));

const computeKeyId = (key: string) => hash('sha256', decodeKey(key), 'base64url').slice(0, 16);

function hashBinding({ id, user_id }: TokenRow, column: Column): string {
  return hash('sha256', JSON.stringify(['user_auth_sessions', column, id, user_id]), 'base64url');
}
