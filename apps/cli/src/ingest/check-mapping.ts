import { PayloadSchema } from '@oselya/collector/payload';
import { CommandError } from '../command-error.ts';
import { oneLine } from '../terminal.ts';
import type { Row } from './row.ts';
import { keepName, listNames } from './summary.ts';

/** The records, and bytes of text, that are searched for a column before the first record is sent. */
const LOOKED_AT = 100;
const LOOKED_AT_BYTES = 4 * 1024 * 1024;

/** Fields without which no record can be sent. */
const REQUIRED: ReadonlySet<string> = new Set(PayloadSchema.required);

/**
 * Yields rows, after a check that the first of them have each column that `--map` names.
 * @param map The column of each field.
 * @param note Called with a line when the first records lack the column of an optional field, which may be rare.
 * @throws CommandError before any record is sent, when they lack the column of a required field, or the whole file
 *   lacks a column.
 */
export async function* checkMapping(
  rows: AsyncIterable<Row>,
  map: ReadonlyMap<string, string>,
  note: (line: string) => void,
): AsyncGenerator<Row> {
  const unseen = new Map(map);
  const names = new Set<string>();
  let records = 0;
  let held: Row[] | undefined = [];

  function look(row: Row): void {
    if (!('fields' in row)) return;
    records += 1;
    for (const name of Object.keys(row.fields)) keepName(names, name);
    for (const [field, column] of unseen) {
      if (Object.hasOwn(row.fields, column)) unseen.delete(field);
    }
  }

  function judge(isWhole: boolean): void {
    // If no record can be read, that is the cause to report.
    if (unseen.size === 0 || records === 0) return;
    const [found] = [...unseen].toSorted(([one], [other]) => rank(one) - rank(other));
    const [field = '', column = ''] = found ?? [];
    const who = isWhole ? 'no record has' : `none of the first ${records} records has`;
    const what = `${who} ${JSON.stringify(oneLine(column))} (--map ${field}=${oneLine(column)})`;
    if (!isWhole && !REQUIRED.has(field)) note(`The collector gets no ${field} of them: ${what}.`);
    else throw new CommandError(`${what}: they have ${listNames(names)}`);
  }

  for await (const row of rows) {
    if (held === undefined) {
      yield row;
      continue;
    }
    look(row);
    held.push(row);
    if (unseen.size > 0 && held.length < LOOKED_AT && row.end < LOOKED_AT_BYTES) continue;
    judge(false);
    yield* held;
    held = undefined;
  }
  if (held === undefined) return;
  judge(true);
  yield* held;
}

/** Required fields come first. */
const rank = (field: string): number => (REQUIRED.has(field) ? 0 : 1);
