import { keepsNoRecords, runInventory } from './cli.ts';
import { keepHeapSmall } from './heap.ts';
import type { InventoryIo } from './io.ts';

/** The exit status of what broke down by a fault of its own: nobody may take it for an inventory's being invalid. */
const BROKEN_DOWN = 2;

/**
 * Runs `oselya inventory` as all that its process does. It loads what the called command needs and nothing else, and
 * with {@link keepHeapSmall} the process of `validate` stays small (docs/adr/0022-size-of-a-record.md). A fault of
 * the command's own is told in one line.
 * @returns The exit status, as {@link runInventory} has it, and 2 for a fault of the command's own.
 */
export async function runInventoryProcess(argv: string[], io: InventoryIo): Promise<number> {
  const tell = (error: unknown) => {
    const told = error instanceof Error ? (error.stack ?? String(error)) : String(error);
    const name = io.name ?? 'oselya inventory';
    io.stderr.write(`${name}: it broke down, which is a fault of its own: ${told}\n`);
    return BROKEN_DOWN;
  };
  const breakDown = (error: unknown) => process.exit(tell(error));
  if (keepsNoRecords(argv)) keepHeapSmall();
  process.once('uncaughtException', breakDown);
  try {
    return await runInventory(argv, io);
  } catch (error) {
    return tell(error);
  } finally {
    process.off('uncaughtException', breakDown);
  }
}
