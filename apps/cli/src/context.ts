import type { Readable, Writable } from 'node:stream';

/** Where a command writes, and whether a person at a terminal reads it there. */
export type Output = Writable & { isTTY?: boolean };

/** The process around the command, or what a test puts in its place. */
export type Io = {
  env: NodeJS.ProcessEnv;
  stdin: Readable & { isTTY?: boolean; fd?: number };
  stdout: Output;
  stderr: Output;
};

/** What a command has of the world around it. */
export type Context = Io & {
  print: (line: string) => void;
  /** Sets the exit status of a command that did its work but has bad news. */
  exitWith: (status: number) => void;
};
