import { type Command, InvalidArgumentError, Option } from 'commander';
import { addCommand, type Context, parseSourceSlug } from '../command.ts';
import type { DelimiterName } from '../ingest/csv.ts';
import type { IngestOptions } from '../ingest/ingest.ts';
import type { FileFormat, FILE_FORMATS as FileFormats } from '../ingest/rows.ts';

// Copied from the readers, so `--help` does not load the readers. The compiler checks the copied names.
const FORMATS: typeof FileFormats = ['json', 'jsonl', 'csv'];
const DELIMITERS: readonly DelimiterName[] = ['comma', 'semicolon', 'tab', 'bar'];

const USAGE = `
Each record needs external_id and description. A column with the name of a field becomes that field
(GET /docs of the collector lists them), and everything else goes into attributes as it is.
  oselya ingest flats.csv --source my-agency --map external_id=id --map price=cost

Give the same command again after an interruption: for 24 hours an unchanged file is the same load,
and nothing is stored twice. Add --again to send all of it as new, which brings the listings back to
the file. Unchanged records cost no call to the model.
The collector accepts 60 records a minute from one source unless its COLLECTOR_INGEST_PER_MINUTE says
otherwise (0 is no limit); the command waits. A file without records is an error.
Exit status: 0 all records are stored, 1 some are not, or were not processed, 2 usage error,
130 interrupted.
`;

type IngestCommandOptions = Omit<IngestOptions, 'file' | 'format' | 'collector'> & {
  format?: FileFormat;
};

/** Adds `oselya ingest`, which sends the records of a file to a running collector over HTTP. */
export function addIngestCommand(program: Command, context: Context): void {
  addCommand(program, 'ingest', {
    description: 'send the listings of a file to a running collector',
    usage: USAGE,
    needs: 'a running collector: COLLECTOR_URL or COLLECTOR_PORT. --dry-run needs none.',
    note: 'If it requires API keys, set COLLECTOR_API_KEY to one with the scope ingest.',
  })
    .argument('<file>', 'a JSON array, JSON Lines or CSV; - is standard input')
    .requiredOption('--source <slug>', 'the source of all records', parseSourceSlug)
    .option(
      '--map <field=column>',
      'take a field from another column; may be repeated',
      parseMapping,
    )
    .addOption(
      new Option('--format <format>', 'if the file name has no known extension').choices(FORMATS),
    )
    .addOption(
      new Option(
        '--delimiter <name>',
        'between cells of CSV, if it cannot be detected from the header',
      ).choices(DELIMITERS),
    )
    .option('--encoding <name>', 'such as windows-1251', parseEncoding, 'utf-8')
    .option('--rejected [path]', 'keep bad records there (FILE.rejected.jsonl), with the reasons')
    .addOption(new Option('--again', 'send a file as new that was sent before').conflicts('load'))
    .option(
      '--load <name>',
      'runs with the same name are one load for 24 hours: for standard input, or several machines',
      parseLoadName,
    )
    .option('--dry-run', 'only check the records')
    .action((file: string, options: IngestCommandOptions, command: Command) =>
      runIngest(file, options, command, context),
    );
}

async function runIngest(
  file: string,
  options: IngestCommandOptions,
  command: Command,
  context: Context,
): Promise<void> {
  const { inferFormat } = await import('../ingest/rows.ts');
  const format = options.format ?? inferFormat(file);
  if (format === undefined) {
    const name = file === '-' ? 'standard input' : file;
    command.error(`the format cannot be detected from ${name}: add --format json, jsonl or csv`);
  }
  if (options.rejected === true && file === '-') {
    command.error('standard input has no name: add a path to --rejected');
  }
  const { PAYLOAD_FIELDS } = await import('../ingest/payload.ts');
  for (const field of options.map?.keys() ?? []) {
    if (PAYLOAD_FIELDS.includes(field)) continue;
    command.error(`--map: a payload has no field ${field}: it has ${PAYLOAD_FIELDS.join(', ')}`);
  }
  const { loadConfig } = await import('@oselya/kit');
  const { clientConfig, resolveCollector } = await import('../config.ts');
  const collector = resolveCollector(loadConfig(clientConfig, context.env));
  const { ingestFile } = await import('../ingest/ingest.ts');
  await ingestFile({ ...options, file, format, collector }, context);
}

function parseLoadName(value: string): string {
  if (/^[\w.-]{1,64}$/.test(value)) return value;
  throw new InvalidArgumentError('It must have 1 to 64 letters, digits, ., _ and -.');
}

function parseMapping(
  value: string,
  previousMappings = new Map<string, string>(),
): Map<string, string> {
  const [, field = '', column = ''] = /^\s*([^=\s]+)\s*=\s*(.*\S)\s*$/s.exec(value) ?? [];
  if (field === '')
    throw new InvalidArgumentError('It must have the form FIELD=COLUMN, such as price=cost.');
  if (previousMappings.has(field))
    throw new InvalidArgumentError(`The field ${field} is mapped twice.`);
  return new Map([...previousMappings, [field, column]]);
}

function parseEncoding(label: string): string {
  try {
    return new TextDecoder(label).encoding;
  } catch {
    throw new InvalidArgumentError(
      'It must be the name of an encoding, such as utf-8 or windows-1251.',
    );
  }
}
