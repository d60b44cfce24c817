import { gzipSync } from 'node:zlib';

// What code scanning of GitHub takes of one analysis; it refuses a whole file that has more. The rest of
// the megabytes is for what is not a result.
const MOST_RESULTS = 25_000;
const MOST_PACKED_BYTES = 9_500_000;

// How much is packed at once, in UTF-16 code units.
const PART = 64 * 1024;

/** Counts results, and how large they get by gzip: no more than the sum of their packed parts. */
export class SarifLimits {
  /** How many results there was no room for. */
  leftOut = 0;
  #results = 0;
  #packedBytes = 0;
  #part = '';

  /** Whether there is room for one more result; if so, it is counted. */
  take(result: string): boolean {
    if (this.#results === MOST_RESULTS || this.#bytesWith(result) > MOST_PACKED_BYTES) {
      this.leftOut += 1;
      return false;
    }
    this.#results += 1;
    this.#part += result;
    if (this.#part.length >= PART) {
      this.#packedBytes += gzipSync(this.#part).length;
      this.#part = '';
    }
    return true;
  }

  #bytesWith(result: string): number {
    return this.#packedBytes + Buffer.byteLength(this.#part) + Buffer.byteLength(result);
  }
}
