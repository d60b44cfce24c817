import type { InventoryIo } from '../io.ts';
import { githubReporter } from './github.ts';
import { jsonReporter } from './json.ts';
import type { Reporter } from './reporter.ts';
import { sarifReporter } from './sarif.ts';
import { textReporter } from './text.ts';

/** How findings can be printed. */
export const OUTPUT_FORMATS = ['text', 'json', 'sarif', 'github'] as const;
export type OutputFormat = (typeof OUTPUT_FORMATS)[number];

/** The reporter of a format. Colours and the lines of findings are for terminals only. */
export function reporterFor(format: OutputFormat, io: InventoryIo): Reporter {
  if (format === 'json') return jsonReporter();
  if (format === 'sarif') return sarifReporter();
  if (format === 'github') return githubReporter();
  const isTerminal = io.isTTY ?? ('isTTY' in io.stdout && io.stdout.isTTY === true);
  // https://no-color.org: any value that is not empty turns colours off.
  const isColored = isTerminal && !io.env['NO_COLOR'];
  return textReporter({ showsExcerpts: isTerminal, isColored });
}
