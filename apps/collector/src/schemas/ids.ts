import { Type } from 'typebox';

/** Ids are JavaScript numbers, and larger ones than those hold do not exist. */
export const MAX_ID = Number.MAX_SAFE_INTEGER;

/**
 * An id in an address. It is text that looks like a number, because whatever turns text into numbers
 * also takes `0x1`, `1e2` and ` 1` for ids: one listing would have many addresses.
 */
export const idParam = Type.String({
  pattern: String.raw`^[1-9]\d{0,15}$`,
  description: 'A whole number from 1.',
});

/** The number that a checked `idParam` says. */
export function parseId(text: string): number {
  return Number(text);
}
