import { randomBytes } from 'node:crypto';

/** A new encryption key: url-safe base64 of 32 bytes. Specification 000, Configuration. */
export function generateKey(): string {
  return randomBytes(32).toString('base64url');
}
