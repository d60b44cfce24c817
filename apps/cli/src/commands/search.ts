import { type Command, InvalidArgumentError, Option } from 'commander';
import { addCommand, CommandError, type Context, parseNonEmpty } from '../command.ts';

/** Maximum number of results that the API returns. Contract 4, Search. */
const MAX_LIMIT = 100;

/** Kinds of search in the paths of the API, by mode. */
const KINDS = { hybrid: 'hybrid', words: 'fulltext', meaning: 'similar' } as const;

type SearchCommandOptions = {
  mode: keyof typeof KINDS;
  limit: number;
  json?: boolean;
};

type Parse = (value: string, earlierValues: unknown) => unknown;

/** Collects the values of a repeated option. */
const collect =
  (parse: (value: string) => unknown): Parse =>
  (value, earlierValues = []) =>
    [earlierValues, parse(value)].flat();

/** Filters of the API with a value, and the help of their options. Contract 4, Search. */
const FILTERS: Readonly<Record<string, [argument: string, description: string, parse: Parse]>> = {
  deal_type: [
    'type',
    'sale, rent or daily_rent; repeat it for alternatives',
    collect(parseNonEmpty),
  ],
  property_type: [
    'type',
    'apartment, house, room, land, commercial or garage',
    collect(parseNonEmpty),
  ],
  city: ['name', 'city in any spelling', collect(parseNonEmpty)],
  district: ['name', 'district or raion', collect(parseNonEmpty)],
  region: ['name', 'region', collect(parseNonEmpty)],
  place_ids: ['id', 'ID of a place in the gazetteer', collect(parseNumber)],
  source_slug: ['slug', 'source', collect(parseNonEmpty)],
  price_min: ['amount', 'lowest price', parseNumber],
  price_max: ['amount', 'highest price', parseNumber],
  price_per_m2_min: ['amount', 'lowest price per square metre', parseNumber],
  price_per_m2_max: ['amount', 'highest price per square metre', parseNumber],
  currency: ['code', 'currency of the prices, such as UAH', parseNonEmpty],
  rooms_min: ['n', 'fewest rooms', parseNumber],
  rooms_max: ['n', 'most rooms', parseNumber],
  area_min: ['m2', 'smallest area', parseNumber],
  area_max: ['m2', 'largest area', parseNumber],
  floor_min: ['n', 'lowest floor', parseNumber],
  floor_max: ['n', 'highest floor', parseNumber],
  features: ['name', 'feature, such as balcony; repeat it for several', collect(parseNonEmpty)],
  price_dropped_since: ['time', 'whose price has dropped since an RFC 3339 time', parseNonEmpty],
  first_seen_since: ['time', 'first seen since an RFC 3339 time', parseNonEmpty],
  bbox: ['west,south,east,north', 'within a box, in degrees', parseNumbers],
  near: ['latitude,longitude,metres', 'within a distance of a point', parseNear],
};

/** Filters of the API without a value. */
const FLAGS = {
  not_first_floor: 'not on the ground floor',
  not_last_floor: 'not on the top floor',
  has_images: 'with images',
  include_archived: 'archived listings too',
  fold_duplicates: 'one listing for each property',
};

const formatFlag = (name: string) => `--${name.replaceAll('_', '-')}`;

/** Adds `oselya search`, which searches a running collector over HTTP. */
export function addSearchCommand(program: Command, { env, print }: Context): void {
  const command = addCommand(program, 'search', {
    description: 'search the listings of a running collector',
    needs: 'a running collector: COLLECTOR_URL or COLLECTOR_PORT.',
    note: 'If it requires API keys, set COLLECTOR_API_KEY.',
  })
    .argument('<words...>', 'the words to find', (value: string, words: string[] | undefined) => [
      ...(words ?? []),
      parseNonEmpty(value),
    ])
    .addOption(
      new Option('--mode <mode>', 'search by words as they are written, by meaning, or by both')
        .choices(Object.keys(KINDS))
        .default('hybrid'),
    )
    .option('--limit <n>', `how many to show, 1 to ${MAX_LIMIT}`, parseLimit, 10)
    .option('--json', 'print the answer of the API')
    .action(async (words: string[], options: SearchCommandOptions) => {
      const { mode, json, ...search } = options;
      const { loadConfig } = await import('@oselya/kit');
      const { clientConfig, resolveCollector } = await import('../config.ts');
      const { createNotCollectorError, describeRejection, requestCollector } =
        await import('../http.ts');
      const { formatResults, isResults } = await import('../search-results.ts');
      const { formatJson } = await import('@oselya/inventory/text');
      const collector = resolveCollector(loadConfig(clientConfig, env));
      const path = `/api/v1/search/${KINDS[mode]}`;
      const body = { query: words.join(' '), ...toFilters(search) };
      const response = await requestCollector(collector, path, { method: 'POST', body });
      if (response.status >= 400) {
        const rejectionOptions = { subject: 'the search', scope: 'search' };
        throw new CommandError(describeRejection(response, rejectionOptions));
      }
      if (response.status !== 200 || !isResults(response.body)) {
        throw createNotCollectorError(collector.url);
      }
      print(json ? formatJson(response.body, 2) : await formatResults(response.body));
    });
  for (const [name, [argument, description, parse]] of Object.entries(FILTERS)) {
    command.option(`${formatFlag(name)} <${argument}>`, description, parse);
  }
  for (const [name, description] of Object.entries(FLAGS)) {
    command.option(formatFlag(name), description);
  }
  command.option('--no-has-images', 'without images');
}

/** Returns the options of a search under the names of the API. */
function toFilters(options: object): object {
  return Object.fromEntries(
    Object.entries(options).map(([name, value]) => [
      name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      value as unknown,
    ]),
  );
}

function parseNumber(value: string): number {
  const number = value.trim() === '' ? NaN : Number(value);
  if (Number.isFinite(number)) return number;
  throw new InvalidArgumentError('It must be a number.');
}

function parseNumbers(value: string): number[] {
  return value.split(',').map(parseNumber);
}

function parseNear(value: string): object {
  const [latitude, longitude, radius_m, ...rest] = parseNumbers(value);
  if (radius_m !== undefined && rest.length === 0) return { latitude, longitude, radius_m };
  throw new InvalidArgumentError('It must be three numbers with commas between them.');
}

function parseLimit(value: string): number {
  const limit = /^\d{1,3}$/.test(value) ? Number(value) : 0;
  if (limit >= 1 && limit <= MAX_LIMIT) return limit;
  throw new InvalidArgumentError(`It must be an integer from 1 to ${MAX_LIMIT}.`);
}
