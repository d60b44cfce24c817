import type { Writable } from 'node:stream';

/** What was to be printed could not be written. The message is one line: what is wrong and what to do. */
export class WriteError extends Error {
  override name = 'WriteError';
}

// What a stream gives when nobody reads it any more, or others have ended it.
const CLOSED = new Set(['EPIPE', 'ERR_STREAM_DESTROYED']);

// How much is written at once, in UTF-16 code units.
const PART = 64 * 1024;

/**
 * Writes to a stream no faster than its reader takes it. When the reader goes away, as `head` does,
 * the rest is dropped and `isClosed` says so; any other failure of the stream is thrown, by `end` at the
 * latest.
 */
export class Printer {
  isClosed = false;
  readonly #stream: Writable;
  #failure: WriteError | null = null;

  constructor(stream: Writable) {
    this.#stream = stream;
    // It stays: the error of a last write may come after everything else is done.
    stream.on('error', (error) => this.#close(error));
  }

  /** @throws WriteError when something before could not be written. */
  async write(text: string): Promise<void> {
    this.#throwFailure();
    if (this.isClosed || text === '') return;
    if (!this.#stream.write(text)) await this.#until(['drain', 'close', 'error']);
  }

  /**
   * Writes pieces as they are made, none of which is made when nobody reads any more.
   * @throws WriteError when something before could not be written.
   */
  async writeAll(pieces: Iterable<string>): Promise<void> {
    let part = '';
    for (const piece of pieces) {
      part += piece;
      if (part.length < PART) continue;
      await this.write(part);
      if (this.isClosed) return;
      part = '';
    }
    await this.write(part);
  }

  /**
   * Waits until everything is written, or never will be.
   * @throws WriteError when some of it could not be written.
   */
  async end(): Promise<void> {
    if (!this.isClosed && !this.#stream.destroyed) {
      // Writes are done in their order, so this one is done after all others.
      await this.#until(['close', 'error'], (done) => this.#stream.write('', done));
    }
    this.#throwFailure();
  }

  #throwFailure(): void {
    // A stream that failed says so at once, and tells its listeners later.
    if (this.#stream.errored) this.#close(this.#stream.errored);
    if (this.#stream.destroyed) this.isClosed = true;
    if (this.#failure !== null) throw this.#failure;
  }

  #close(error: Error & { code?: unknown }): void {
    this.isClosed = true;
    if (CLOSED.has(String(error.code))) return;
    const why =
      error.code === 'ENOSPC' ? 'there is no space left; free some, and try again' : error.message;
    this.#failure ??= new WriteError(`cannot write to standard output: ${why}`, { cause: error });
  }

  /** Waits for one of these events of the stream, or for whatever `begin` calls back. */
  #until(events: string[], begin?: (done: () => void) => void): Promise<void> {
    return new Promise((resolve) => {
      const go = () => {
        for (const event of events) this.#stream.off(event, go);
        resolve();
      };
      for (const event of events) this.#stream.on(event, go);
      begin?.(go);
    });
  }
}
