import { basename } from 'node:path';
import { maskCredentials, maskRecord } from '../credentials.ts';
import { toDay } from '../day.ts';
import {
  formatCsvReport,
  formatHtmlReport,
  formatMarkdownReport,
  isLargeReport,
} from '../report/report.ts';
import { formatCount } from '../text.ts';
import {
  createChoiceOption,
  type Command,
  dayOption,
  INPUT_FORMAT_HELP,
  INPUT_FORMAT_OPTION,
  parseArguments,
  textOption,
} from './command.ts';
import { readInput, resolveSingleFile } from './files.ts';

const REPORTS = { html: formatHtmlReport, md: formatMarkdownReport, csv: formatCsvReport };

const HELP = `Prints the contents of an inventory: counts by exposure, owner and age of the last review, and all records.
The HTML page is one file that loads nothing; its table sorts and filters. User names, passwords and
secret parameters of addresses are masked. FILE is as for \`validate\`.

Options:
  --format html|md|csv              the output format (default: html); CSV contains only the records, in
                                    UTF-8, which Excel must be told when it imports the file
  --title TEXT                      the heading (default: the name of FILE)
  --today YYYY-MM-DD                the day of the report (default: today in UTC)
${INPUT_FORMAT_HELP}
  --help                            print this text

Exit status: 0 printed, 2 unreadable or invalid file, or usage error.
`;

/** `oselya inventory report` (Contract 5). */
export const reportCommand: Command = {
  help: HELP,
  async run(argv, { io, out, log }) {
    const { values, positionals } = parseArguments('report', argv, {
      format: createChoiceOption('html', 'md', 'csv'),
      title: textOption,
      today: dayOption,
      ...INPUT_FORMAT_OPTION,
    });
    const file = await resolveSingleFile(positionals, 'reported on');
    const { format = 'html', today = toDay(new Date()), 'input-format': inputFormat } = values;
    const title = values.title ?? (file === '-' ? 'Endpoint inventory' : basename(file));
    const input = readInput(file, io, inputFormat);
    const records = await Array.fromAsync(input, ({ value }) => maskRecord(value));
    if (format === 'html' && isLargeReport(records)) {
      const count = formatCount(records.length, 'record');
      log(`a page of ${count} is slow in browsers; use --format csv for a spreadsheet`);
    }
    await out.writeAll(REPORTS[format](records, { title: maskCredentials(title), today }));
    return 0;
  },
};
