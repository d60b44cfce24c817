import type { Writable } from 'node:stream';

/** What the command uses of its process; `process` itself has this shape. */
export type InventoryIo = {
  stdin: AsyncIterable<Uint8Array>;
  stdout: Writable;
  stderr: Writable;
  env: Record<string, string | undefined>;
  /** Whether standard output is a terminal; without it the stream is asked. */
  isTTY?: boolean;
  /** What the command is called: `oselya inventory` unless told. */
  name?: string;
  /** Ends a command that would go on until its process is ended. */
  signal?: AbortSignal;
};
