import { type Command, InvalidArgumentError, Option } from 'commander';
import { sourceSlug } from '../arguments.ts';
import type { Context } from '../context.ts';
import { help } from '../help.ts';
import type { DelimiterName } from '../ingest/csv.ts';
import type { Format, FORMATS as ReadFormats } from '../ingest/open-rows.ts';

// Written out, so that --help need not load what reads files; the compiler holds both lists together.
const FORMATS: typeof ReadFormats = ['json', 'jsonl', 'csv'];
const DELIMITERS: readonly DelimiterName[] = ['comma', 'semicolon', 'tab', 'bar'];

/** What the command was given, as it was read. */
export type IngestOptions = {
  source: string;
  map?: ReadonlyMap<string, string>;
  format?: Format;
  delimiter?: DelimiterName;
  encoding: string;
  rejected?: string | true;
  again?: boolean;
  load?: string;
  dryRun?: boolean;
};

/** `oselya ingest`: sends the records of a file to a running collector, as any other client of it does. */
export function addIngestCommand(program: Command, context: Context): void {
  const command: Command = program
    .command('ingest')
    .description('send the listings of a file to a running collector')
    .addHelpText(
      'after',
      `
Each record needs external_id and description. What has the name of a field becomes that field
(GET /docs of the collector lists them), and everything else goes into attributes as it is.
  oselya ingest flats.csv --source my-agency --map external_id=id --map price=cost

Give the same command again after an interruption: within 20 hours it goes on with the same load,
and nothing is stored twice. After its end a file that is given again is another load: all records
are sent, and the listings are as the file has them, also those that had another price meanwhile or
were archived. What says nothing new costs no call to the model.
The collector takes 60 records a minute of one source unless its COLLECTOR_INGEST_PER_MINUTE says
otherwise (0 is no limit); the command waits. A file without records is an error.
Exit status: 0 all records are stored, 1 some are not, or were not processed, 2 wrong use,
130 interrupted.
${help(
  'a collector that runs: COLLECTOR_URL or COLLECTOR_PORT. --dry-run needs none.',
  'Where that asks for API keys, set COLLECTOR_API_KEY to one with the scope ingest.',
)}`,
    )
    .argument('<file>', 'a JSON array, JSON lines or CSV; - is standard input')
    .requiredOption('--source <slug>', 'the source of all of them', sourceSlug)
    .option(
      '--map <field=column>',
      'take a field from the column of another name; may be repeated',
      mapping,
    )
    .addOption(
      new Option('--format <format>', 'where the name of the file does not tell').choices(FORMATS),
    )
    .addOption(
      new Option('--delimiter <name>', 'between cells of CSV; else the header tells').choices(
        DELIMITERS,
      ),
    )
    .option('--encoding <name>', 'such as windows-1251', encoding, 'utf-8')
    .option('--rejected [path]', 'keep bad records there (FILE.rejected.jsonl), with the reasons')
    .addOption(
      new Option('--again', 'begin another load, also where one was interrupted').conflicts('load'),
    )
    .option(
      '--load <name>',
      'runs with the same name are one load for 24 hours: for standard input, or several machines',
      loadName,
    )
    .option('--dry-run', 'only check the records');
  command.action(async (file: string, options: IngestOptions) => {
    const { formatOf } = await import('../ingest/open-rows.ts');
    const format = options.format ?? formatOf(file);
    if (format === undefined) {
      command.error(
        `the name of ${file === '-' ? 'standard input' : file} does not tell the format: add --format json, jsonl or csv`,
      );
    }
    if (options.rejected === true && file === '-') {
      command.error('standard input has no name: add a path to --rejected');
    }
    const { FIELDS } = await import('../ingest/to-payload.ts');
    const unknown = [...(options.map?.keys() ?? [])].find((field) => !FIELDS.includes(field));
    if (unknown !== undefined) {
      command.error(`--map: a payload has no field ${unknown}: it has ${FIELDS.join(', ')}`);
    }
    const { loadConfig } = await import('@oselya/kit');
    const { clientConfig, collectorOf } = await import('../config.ts');
    const config = loadConfig(clientConfig, context.env);
    const { ingest } = await import('../ingest/ingest.ts');
    await ingest({ ...options, file, format, collector: collectorOf(config) }, context);
  });
}

function loadName(value: string): string {
  if (/^[\w.-]{1,64}$/.test(value)) return value;
  throw new InvalidArgumentError('A name has letters, digits, ., _ and -, at most 64 of them.');
}

function mapping(value: string, earlier = new Map<string, string>()): Map<string, string> {
  const [, field = '', column = ''] = /^\s*([^=\s]+)\s*=\s*(.*\S)\s*$/s.exec(value) ?? [];
  if (field === '') throw new InvalidArgumentError('It is FIELD=COLUMN, such as price=cost.');
  if (earlier.has(field)) throw new InvalidArgumentError(`The field ${field} is mapped twice.`);
  return new Map([...earlier, [field, column]]);
}

function encoding(label: string): string {
  try {
    return new TextDecoder(label).encoding;
  } catch {
    throw new InvalidArgumentError('It is a name of an encoding, such as utf-8 or windows-1251.');
  }
}
