import { InvalidInventoryError, type PlacedRecord, readRecords } from '../check/read-records.ts';
import type { InventoryFormat } from '../input/format.ts';
import type { InventoryIo } from '../io.ts';
import { readFailureAsUsage } from './file-failure.ts';
import { UsageError } from './usage-error.ts';

/**
 * The records of a file, or of standard input for `-`, for commands that work with valid inventories only.
 * @throws UsageError when it cannot be read or is not valid.
 */
export async function* readInput(
  file: string,
  { io, format }: { io: InventoryIo; format?: InventoryFormat | undefined },
): AsyncGenerator<PlacedRecord> {
  const label = file === '-' ? '<stdin>' : file;
  try {
    yield* readRecords(file === '-' ? io.stdin : { path: file }, {
      file: label,
      ...(format && { format }),
    });
  } catch (error) {
    if (error instanceof InvalidInventoryError) {
      const see = file === '-' ? undefined : `validate ${file}`;
      throw new UsageError(error.message, { see, cause: error });
    }
    throw readFailureAsUsage(error, label);
  }
}
