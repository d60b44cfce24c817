import { randomBytes } from 'node:crypto';

/** An id that cannot be guessed: 32 random bytes as base64url. Contract 3, Auth session. */
export function randomId(): string {
  return randomBytes(32).toString('base64url');
}

/** The shape of such an id, for schemas. It needs no escaping in HTML, URLs and cookies. */
export const ID_PATTERN = '^[A-Za-z0-9_-]{43}$';

const idShape = new RegExp(ID_PATTERN);

/** Whether a text has the shape of such an id. */
export function isId(text: string): boolean {
  return idShape.test(text);
}
