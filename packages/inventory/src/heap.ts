import { setFlagsFromString } from 'node:v8';

/**
 * Keeps the heap as small as a check needs it, for the rest of the process. V8 doubles the part that new values are
 * made in again and again, to 64 MB, since a little survives each collection, and lets the other part grow by half
 * or more before it is looked through; both are for programs that keep what they make. A check makes a record, drops
 * it, and is as fast with them small. What keeps all that it reads, as a report or an import does, is looked through
 * again and again with it, and takes much longer.
 */
export function keepHeapSmall(): void {
  setFlagsFromString('--semi-space-growth-factor=1');
  setFlagsFromString('--heap-growing-percent=10');
  setFlagsFromString('--optimize-for-size');
}
