import { isEndpointRecord } from '../record.ts';
import { countStrings } from './count-strings.ts';

/** How an inventory is written: one array, or one record a line. */
export type InventoryFormat = 'json' | 'jsonl';

const BLANK = /^[ \t\r]*$/;

// Text that was cut in the wrong place is no JSON in either of the formats, so parsing it proves the cut.
const PARSERS: Record<InventoryFormat, (text: string) => unknown[]> = {
  json: (text) => JSON.parse(`[${text}]`),
  jsonl: (text) =>
    text
      .split('\n')
      .filter((line) => !BLANK.test(line))
      .map((line) => JSON.parse(line)),
};

/**
 * Counts the records in a piece of an inventory when nothing is wrong with any of them. Undefined when
 * something is, or may be: such a piece has to be read record by record.
 *
 * Nearly all records of nearly all inventories are counted here, many at once, without looking for the
 * borders between them.
 * @param strings How many are written in it, keys included: parsing keeps fewer when keys are repeated.
 */
export function countClean(
  piece: Buffer,
  strings: number,
  format: InventoryFormat,
): number | undefined {
  let records: unknown[];
  try {
    records = PARSERS[format](piece.toString());
  } catch {
    return undefined;
  }
  let kept = 0;
  for (const record of records) {
    if (!isEndpointRecord(record)) return undefined;
    kept += countStrings(record);
  }
  return kept === strings ? records.length : undefined;
}
