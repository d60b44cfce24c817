import type { Rate, Tables } from '@oselya/collector';
import type { Command } from 'commander';
import { addCommand, CommandError, type Context, openDatabase, parseNonEmpty } from '../command.ts';
import { sanitizeLine } from '../terminal.ts';

const USAGE = `
A file has date, currency and rate: hryvnias for one unit of the currency, as the National Bank of Ukraine states them.
  date,currency,rate
  2026-11-27,USD,44.31`;

/** Adds `oselya rates`, which lists and loads the exchange rates of the collector. */
export function addRatesCommand(program: Command, context: Context): void {
  addCommand(program, 'rates', {
    description: 'list the exchange rates of price filters, or load them from a file',
    usage: USAGE,
    needs: 'the database of the collector: DATABASE_URL or DATA_DIR.',
    note: 'A rate for the same currency and date is replaced.',
  })
    .argument(
      '[file]',
      'a .csv, .json or .jsonl file; - for CSV from standard input',
      parseNonEmpty,
    )
    .action((file?: string) => runRates(file, context));
}

async function runRates(file: string | undefined, context: Context): Promise<void> {
  const { env, print, stderr } = context;
  const collector = await import('@oselya/collector');
  const { loadConfig } = await import('@oselya/kit');
  // Reading the file first leaves the database untouched if a row is invalid.
  const rates =
    file === undefined ? undefined : await readRates(file, context, collector.parseRate);
  await using database = await openDatabase<Tables>(
    loadConfig(collector.configSchema, env),
    context,
  );
  await collector.migrateDatabase(env, database);
  if (rates !== undefined) {
    await collector.storeRates(database.db, rates);
    return print(`Loaded ${rates.length} rates.`);
  }
  await collector.storeStartingRates(database.db);
  const latestRates = await collector.listLatestRates(database.db);
  for (const { currency, rate, date, isStartingRate } of latestRates) {
    print([currency, rate, date, isStartingRate ? 'starting set' : 'loaded'].join('\t'));
  }
  if (latestRates.some(({ isStartingRate }) => isStartingRate)) {
    stderr.write(
      'The rates of the starting set are approximate: load current ones with  npx oselya rates FILE\n',
    );
  }
}

/** @throws CommandError with the first invalid row. */
async function readRates(
  path: string,
  { stdin }: Context,
  parseRate: (fields: Record<string, unknown>) => Rate,
): Promise<Rate[]> {
  const { inferFormat, openRows } = await import('../ingest/rows.ts');
  const format = path === '-' ? 'csv' : inferFormat(path);
  if (format === undefined) {
    throw new CommandError(`${path} must be a .csv, .json or .jsonl file: rename it`);
  }
  const { name, rows } = await openRows({
    path,
    format,
    encoding: 'utf-8',
    delimiter: undefined,
    onColumns: () => undefined,
    stdin,
    signal: new AbortController().signal,
  });
  const rates: Rate[] = [];
  for await (const row of rows) {
    const position = row.index === undefined ? `line ${row.line}` : `record ${row.index}`;
    const createError = (reason: string) =>
      new CommandError(`${name}, ${position}: ${sanitizeLine(reason)}. Nothing was loaded`);
    if (!('fields' in row)) throw createError(row.reason);
    try {
      rates.push(parseRate(row.fields));
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      throw createError(error.message);
    }
  }
  if (rates.length === 0)
    throw new CommandError(`${name} has no rates: it needs date, currency, rate`);
  return rates;
}
