import type { Printer } from '../output/printer.ts';
import type { InventoryIo } from '../io.ts';

/** What a command has while it runs. */
export type Context = {
  io: InventoryIo;
  /** Standard output. */
  out: Printer;
  /** Writes a line to standard error, after the name of the command. */
  tell: (message: string) => void;
};

/** A command of `oselya inventory` in the list of all. */
export type Entry = {
  /** What it takes after its name and its options, such as `FILE...`. */
  usage: string;
  /** One line for the list of commands. */
  summary: string;
  /** Whether it reads records one after another, and keeps none of them. */
  keepsNoRecords?: true;
  /** Loads what the command needs, which is more than the others need. */
  load: () => Promise<Command>;
};

/** What is behind an entry. */
export type Command = {
  /** What `--help` says after the usage; it ends with the options and the exit status. */
  help: string;
  /** Gives the exit status: 0 good, 1 bad news, 2 unreadable. Throws UsageError. */
  run(argv: string[], context: Context): Promise<number>;
};
