import type { Position, Problem } from '../finding.ts';
import type { LocatedValue } from './located-value.ts';
import type { ParsedValue } from './parsed-value.ts';
import type { Run } from './run.ts';
import type { Opened } from './syntax-error.ts';

/** The text of one value that a scanner has found. */
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
  /** The value, where the scanner has parsed it and it is within the limits. */
  parsed?: ParsedValue;
};

/** A parsed record, and where its members stand in a text. */
export type LocatedRecord = {
  value: unknown;
  isRepeating: boolean;
  text: string;
  start: Position;
  locate: () => LocatedValue;
};

/**
 * - `record`: an item of the inventory.
 * - `run`: several items that were parsed at once.
 * - `root`: a value in the place of the inventory's array.
 * - `problem`: something wrong between values, at an index of the chunk. Nothing follows it.
 */
export type ScanEvent =
  | { kind: 'record'; value: RawValue }
  | { kind: 'run'; run: Run }
  | { kind: 'root'; value: RawValue }
  | { kind: 'problem'; problem: Problem; index: number };

/** An item whose members were found while it was parsed, as of YAML. */
export type LocatedEvent = { kind: 'located'; value: LocatedRecord };

/** Cuts a text that comes in chunks of whole UTF-8 characters into the values it consists of. */
export type Scanner = {
  /** What the end of a value's text is the end of. */
  readonly what: 'file' | 'line';
  push(bytes: Buffer): Iterable<ScanEvent | LocatedEvent>;
  end(): Iterable<ScanEvent | LocatedEvent>;
  /** The position after everything that was pushed. */
  position(): Position;
};
