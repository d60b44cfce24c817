import { setFlagsFromString } from 'node:v8';

/**
 * Keeps the part of the heap that new values are made in at its size, for the rest of the process. V8 doubles
 * it again and again, to 64 MB, since a little survives each collection; that is for programs that keep what
 * they make. A check makes a record, drops it, and is as fast without.
 */
export function keepYoungHeapSmall(): void {
  setFlagsFromString('--semi-space-growth-factor=1');
}
