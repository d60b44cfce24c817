import type { Writable } from 'node:stream';

/**
 * Writes to a stream no faster than its reader takes it. When the reader goes away, as `head` does,
 * the rest is dropped and `isClosed` says so; any other failure of the stream is thrown.
 */
export class Printer {
  isClosed = false;
  readonly #stream: Writable;
  #failure: Error | null = null;

  constructor(stream: Writable) {
    this.#stream = stream;
    // It stays: the error of a last write may come after everything else is done.
    stream.on('error', (error: NodeJS.ErrnoException) => {
      this.isClosed = true;
      if (error.code !== 'EPIPE') this.#failure = error;
    });
  }

  async write(text: string): Promise<void> {
    if (this.#failure !== null) throw this.#failure;
    if (this.#stream.destroyed) this.isClosed = true;
    if (this.isClosed || text === '') return;
    if (!this.#stream.write(text)) await this.#drained();
  }

  /** Waits until the stream takes more, or never will. */
  #drained(): Promise<void> {
    const events = ['drain', 'close', 'error'];
    return new Promise((resolve) => {
      const go = () => {
        for (const event of events) this.#stream.off(event, go);
        resolve();
      };
      for (const event of events) this.#stream.on(event, go);
    });
  }
}
