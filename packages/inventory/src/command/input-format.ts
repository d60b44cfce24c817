import { INVENTORY_FORMATS, type InventoryFormat } from '../input/format.ts';
import { choice } from './arguments.ts';

/** The option of all commands that read inventories. */
export const INPUT_FORMAT_OPTION = { 'input-format': { type: 'string' } } as const;

/** What the help of those says about it that read one FILE. */
export const INPUT_FORMAT_HELP =
  '  --input-format json|jsonl|yaml    how FILE is read, whatever its name';

/** What was given for it; undefined leaves it to the name of the file. Throws UsageError. */
export function inputFormatOf(values: { 'input-format'?: string }): InventoryFormat | undefined {
  return choice('--input-format', INVENTORY_FORMATS, values['input-format']);
}
