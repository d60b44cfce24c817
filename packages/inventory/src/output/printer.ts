import { once } from 'node:events';
import type { Writable } from 'node:stream';

/** Thrown when output could not be written. The message is one line: what is wrong and what to do. */
export class WriteError extends Error {
  override name = 'WriteError';
}

// Errors of a stream whose reader has gone away.
const CLOSED = new Set(['EPIPE', 'ERR_STREAM_DESTROYED']);
// UTF-16 code units that are written at once.
const PART_LENGTH = 64 * 1024;

/**
 * Writes to a stream with backpressure. When the reader goes away, as `head` does, it drops the rest and sets
 * `isClosed`; other errors of the stream are thrown, by `end` at the latest.
 */
export class Printer {
  isClosed = false;
  readonly #stream: Writable;
  readonly #closed: Promise<void>;
  #failure: WriteError | null = null;

  constructor(stream: Writable) {
    this.#stream = stream;
    const closed = Promise.withResolvers<void>();
    this.#closed = closed.promise;
    // The listener stays, as the error of the last write may come late.
    stream.on('error', (error) => {
      this.#close(error);
      closed.resolve();
    });
    stream.once('close', () => closed.resolve());
  }

  /** @throws WriteError when an earlier write failed. */
  async write(text: string): Promise<void> {
    this.#throwFailure();
    if (this.isClosed || text === '' || this.#stream.write(text)) return;
    const waiting = new AbortController();
    const drained = once(this.#stream, 'drain', { signal: waiting.signal }).catch(() => undefined);
    await Promise.race([drained, this.#closed]);
    waiting.abort();
  }

  /**
   * Writes pieces as they are generated, and stops when the reader has gone away.
   * @throws WriteError when an earlier write failed.
   */
  async writeAll(pieces: Iterable<string>): Promise<void> {
    let part = '';
    for (const piece of pieces) {
      part += piece;
      if (part.length < PART_LENGTH) continue;
      await this.write(part);
      if (this.isClosed) return;
      part = '';
    }
    await this.write(part);
  }

  /**
   * Waits until everything is written.
   * @throws WriteError when some of it could not be written.
   */
  async end(): Promise<void> {
    if (!this.isClosed && !this.#stream.destroyed) {
      // Writes complete in order, so this one completes last.
      const flushed = new Promise<void>((done) => this.#stream.write('', () => done()));
      await Promise.race([flushed, this.#closed]);
    }
    this.#throwFailure();
  }

  #throwFailure(): void {
    // A failed stream has its error at once and emits it later.
    if (this.#stream.errored) this.#close(this.#stream.errored);
    if (this.#stream.destroyed) this.isClosed = true;
    if (this.#failure !== null) throw this.#failure;
  }

  #close(error: Error & { code?: unknown }): void {
    this.isClosed = true;
    if (CLOSED.has(String(error.code))) return;
    const reason =
      error.code === 'ENOSPC' ? 'there is no space left; free some and try again' : error.message;
    this.#failure ??= new WriteError(`cannot write to standard output: ${reason}`, {
      cause: error,
    });
  }
}
