import type { Position, Problem } from '../finding.ts';
import type { Opened } from './syntax-error.ts';

/** The text of one value that a scanner has found, not parsed yet. */
export type RawValue = {
  text: string;
  /** Where the text begins in the file. */
  start: Position;
  /** How many strings are written in it, keys included, repeated ones too. */
  strings: number;
  /** What is open around it. */
  enclosing: readonly Opened[];
  /**
   * Null when the text says everything about the value. Else the text was cut, and this is what to
   * say when nothing is wrong inside of the part that was read.
   */
  cut: Problem | null;
};

/**
 * - `record`: an item of the inventory.
 * - `root`: a value in the place of the inventory's array.
 * - `problem`: something wrong between values, at an index of the chunk. Nothing follows it.
 */
export type ScanEvent =
  | { kind: 'record'; value: RawValue }
  | { kind: 'root'; value: RawValue }
  | { kind: 'problem'; problem: Problem; index: number };

/**
 * Takes a run of records at once, as they are written one after another, and tells whether it did. The run is
 * cut where records seem to end; if it is refused, for that or for anything else, they come one by one.
 * @param strings How many strings are written in it, keys included.
 */
export type TakeRun = (records: Buffer, strings: number) => boolean;

/** Cuts a text that comes in chunks of whole UTF-8 characters into the values it consists of. */
export type Scanner = {
  /** What the end of a value's text is the end of. */
  readonly what: 'file' | 'line';
  push(bytes: Buffer): Iterable<ScanEvent>;
  end(): Iterable<ScanEvent>;
  /** The position after everything that was pushed. */
  position(): Position;
};
