import { hrtime } from 'node:process';

/** A token of the scripted model carries the time of writing, by the clock that all processes share. */
export function stampToken(): string {
  return `${hrtime.bigint().toString(36)} `;
}

/**
 * How long ago the tokens of a text were written, in milliseconds. A text holds whole tokens: who passes them on
 * may put some together, and breaks none.
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
