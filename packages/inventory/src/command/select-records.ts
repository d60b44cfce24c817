import type { InventoryIo } from '../io.ts';
import type { EndpointRecord } from '../record.ts';
import { EXPOSURES } from '../report/summary.ts';
import { choice } from './arguments.ts';
import { INPUT_FORMAT_HELP, INPUT_FORMAT_OPTION, inputFormatOf } from './input-format.ts';
import { readInput } from './read-input.ts';

/** The options of commands that work with some of the records of one file. */
export const SELECT_OPTIONS = {
  type: { type: 'string', multiple: true },
  exposure: { type: 'string', multiple: true },
  ...INPUT_FORMAT_OPTION,
} as const;

/** What the help says about them. */
export const SELECT_HELP = `  --type TYPE                       only records of this type, such as metrics; can be given again
  --exposure EXPOSURE               only records of this exposure, such as public; can be given again
${INPUT_FORMAT_HELP}`;

/**
 * The records that the options select; all of them without any.
 * @throws UsageError when the file cannot be read or is not valid, or an exposure is none.
 */
export async function selectRecords(
  file: string,
  io: InventoryIo,
  values: { type?: string[]; exposure?: string[]; 'input-format'?: string },
): Promise<EndpointRecord[]> {
  const { type } = values;
  const exposure = values.exposure?.map((given) => choice('--exposure', EXPOSURES, given));
  const records = [];
  for await (const { value } of readInput(file, { io, format: inputFormatOf(values) })) {
    const isWanted =
      (type?.includes(value.type) ?? true) && (exposure?.includes(value.exposure) ?? true);
    if (isWanted) records.push(value);
  }
  return records;
}
