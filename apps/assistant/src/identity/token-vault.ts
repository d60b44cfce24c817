import { createHash } from 'node:crypto';
import { CompactEncrypt, compactDecrypt } from 'jose';

/** Where a sealed token stands. It can be opened for that place alone. */
export type TokenPlace = {
  sessionId: string;
  userId: string;
  column: 'access_token_enc' | 'refresh_token_enc' | 'id_token_enc';
};

/** Encrypts and decrypts tokens, each for its place. */
export type TokenVault = {
  /** Encrypts a token with the current key, as a compact JWE (RFC 7516). */
  seal(token: string, place: TokenPlace): Promise<string>;
  /** @throws UnreadableTokenError where it was tampered with, moved, or sealed with an unknown key. */
  open(sealed: string, place: TokenPlace): Promise<string>;
};

/** A stored token that none of the keys opens at its place. */
export class UnreadableTokenError extends Error {
  override readonly name = 'UnreadableTokenError';

  constructor() {
    super('A stored token cannot be read: SVC_AUTH_ENCRYPTION_KEY was changed, or the row was');
  }
}

/**
 * Encrypts tokens for storage: JWE with direct use of the key and AES-256-GCM (`dir`, `A256GCM`).
 * The header names the key, so that a key can be replaced while older tokens stay readable, and holds
 * a digest of the token's place, so that a sealed token copied to another row or column does not open.
 * Specification 000, Auth session record.
 * @param current 32 bytes; seals and opens.
 * @param earlier Keys that only open.
 */
export function createTokenVault(
  current: Uint8Array,
  earlier: readonly Uint8Array[] = [],
): TokenVault {
  const kid = keyId(current);
  const keys = new Map([...earlier, current].map((key) => [keyId(key), key]));
  return {
    seal(token, place) {
      return new CompactEncrypt(new TextEncoder().encode(token))
        .setProtectedHeader({ alg: 'dir', enc: 'A256GCM', kid, place: digest(place) })
        .encrypt(current);
    },
    async open(sealed, place) {
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
            // Nothing here is ever compressed.
            maxDecompressedLength: 0,
          },
        );
        if (protectedHeader['place'] !== digest(place)) throw new UnreadableTokenError();
        return new TextDecoder().decode(plaintext);
      } catch {
        // The reason is the same for every caller, and the underlying error may quote the token.
        throw new UnreadableTokenError();
      }
    },
  };
}

/** Keys are 32 random bytes, so a part of their digest names them and says nothing about them. */
function keyId(key: Uint8Array): string {
  return createHash('sha256').update(key).digest('base64url').slice(0, 16);
}

function digest({ column, sessionId, userId }: TokenPlace): string {
  return createHash('sha256')
    .update(JSON.stringify(['user_auth_sessions', column, sessionId, userId]))
    .digest('base64url');
}

/** Reads a key as the configuration holds it, which has checked its form. */
export function decodeKey(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text, 'base64url'));
}
