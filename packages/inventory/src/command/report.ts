import { basename } from 'node:path';
import { maskCredentials, maskRecord } from '../credentials.ts';
import type { EndpointRecord } from '../record.ts';
import { csvReport } from '../report/csv.ts';
import { htmlReport, isLarge } from '../report/html.ts';
import { count } from '../output/wording.ts';
import { markdownReport } from '../report/markdown.ts';
import { choice, dayOf, parseArguments } from './arguments.ts';
import type { Command } from './command.ts';
import { oneFile } from './input-files.ts';
import { INPUT_FORMAT_HELP, INPUT_FORMAT_OPTION, inputFormatOf } from './input-format.ts';
import { readInput } from './read-input.ts';

const FORMATS = ['html', 'md', 'csv'] as const;

const REPORTS = { html: htmlReport, md: markdownReport, csv: csvReport };

const HELP = `Prints what an inventory holds: counts by exposure, owner and age of the last review, and all records.
The HTML page is one file that loads nothing; its table sorts and filters. User names, passwords and
secret parameters of addresses are masked. FILE is as for \`validate\`.

Options:
  --format html|md|csv              how it is printed (default: html); CSV has the records alone, in
                                    UTF-8, which Excel has to be told when it imports the file
  --title TEXT                      what stands on top (default: the name of FILE)
  --today YYYY-MM-DD                the day of the report (default: today in UTC)
${INPUT_FORMAT_HELP}
  --help                            print this text

Exit status: 0 printed, 2 unreadable, invalid or wrong use.
`;

/** `oselya inventory report` (Contract 5). */
export const report: Command = {
  help: HELP,
  async run(argv, { io, out, tell }) {
    const { values, positionals } = parseArguments('report', argv, {
      format: { type: 'string' },
      title: { type: 'string' },
      today: { type: 'string' },
      ...INPUT_FORMAT_OPTION,
    });
    const file = await oneFile(positionals, 'reported on');
    const format = choice('--format', FORMATS, values.format) ?? 'html';
    const inputFormat = inputFormatOf(values);
    const today = dayOf(values.today);
    const title = values.title ?? (file === '-' ? 'Endpoint inventory' : basename(file));
    const records: EndpointRecord[] = [];
    for await (const { value } of readInput(file, { io, format: inputFormat })) {
      // A report is for more people than the inventory.
      records.push(maskRecord(value));
    }
    if (format === 'html' && isLarge(records)) {
      tell(
        `${count(records.length, 'record')} make a page that is slow in browsers; --format csv has them for a spreadsheet`,
      );
    }
    await out.writeAll(REPORTS[format](records, { title: maskCredentials(title), today }));
    return 0;
  },
};
