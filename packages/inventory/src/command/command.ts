import type { InventoryIo } from './io.ts';

/** A command of `oselya inventory`. */
export interface Command {
  /** What it takes after its name, such as `FILE...`. */
  usage: string;
  /** One line for the list of commands. */
  summary: string;
  /** Gives the exit status: 0 good, 1 bad news, 2 unreadable. Throws UsageError. */
  run(argv: string[], io: InventoryIo): Promise<number>;
}
