import { BLANK_LINE } from '../json/blank-line.ts';
import { isEndpointRecord } from '../record.ts';
import type { InventoryFormat } from '../input/format.ts';
import { MAX_RECORD_PARTS } from '../limits.ts';
import { addParts } from './count-parts.ts';

// A run of an array is proved by parsing it: it begins at a record and was cut before a delimiter, so what
// is a list of JSON values ends at the end of a value, and its last one has to be a record as well. Lines are
// cut at their ends, which nothing else can be.
const PARSERS: Record<InventoryFormat, (text: string) => unknown[]> = {
  json: (text) => JSON.parse(`[${text}]`),
  jsonl: (text) =>
    text
      .split('\n')
      .filter((line) => !BLANK_LINE.test(line))
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
    const parts = { strings: 0, containers: 0 };
    addParts(record, parts);
    // That it is too large is told one by one, as it is for a record that is read alone.
    if (parts.strings + parts.containers > MAX_RECORD_PARTS) return undefined;
    kept += parts.strings;
  }
  return kept === strings ? records.length : undefined;
}
