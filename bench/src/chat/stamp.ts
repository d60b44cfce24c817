import { hrtime } from 'node:process';

/** Returns a token that contains the current time, from a clock that all processes share. */
export function stampToken(): string {
  return `${hrtime.bigint().toString(36)} `;
}

/**
 * Returns the ages of a text's tokens, in milliseconds. A server may join tokens but must not split them.
 */
export function readTokenAges(text: string): number[] {
  const now = hrtime.bigint();
  const tokens = text.split(' ').filter((token) => token !== '');
  return tokens.map((token) => Number(now - readStamp(token)) / 1e6);
}

function readStamp(token: string): bigint {
  let value = 0n;
  for (const digit of token) value = value * 36n + BigInt(Number.parseInt(digit, 36));
  return value;
}
