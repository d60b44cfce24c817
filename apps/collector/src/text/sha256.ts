import { hash } from 'node:crypto';

/** SHA-256, in hexadecimal, of a text. */
export function sha256(text: string): string {
  return hash('sha256', text);
}
