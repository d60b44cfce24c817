import { type Command, InvalidArgumentError } from 'commander';
import { type Static, Type } from 'typebox';
import { addCommand, CommandError, type Context, parseNonEmpty } from '../command.ts';

/** Maximum number of results that the API returns. Contract 4, Search. */
const MAX_LIMIT = 100;

const MAX_TITLE_LENGTH = 90;

type SearchCommandOptions = { similar?: boolean; limit: number; json?: boolean };

/** Adds `oselya search`, which searches a running collector over HTTP. */
export function addSearchCommand(program: Command, { env, print }: Context): void {
  addCommand(program, 'search', {
    description: 'search the listings of a running collector',
    needs: 'a running collector: COLLECTOR_URL or COLLECTOR_PORT.',
    note: 'If it requires API keys, set COLLECTOR_API_KEY.',
  })
    .argument('<words...>', 'the words to find', (value: string, words: string[] | undefined) => [
      ...(words ?? []),
      parseNonEmpty(value),
    ])
    .option('--similar', 'find listings near in meaning, instead of those with all the words')
    .option('--limit <n>', `how many to show, 1 to ${MAX_LIMIT}`, parseLimit, 10)
    .option('--json', 'print the answer of the API')
    .action(async (words: string[], { similar, limit, json }: SearchCommandOptions) => {
      const { loadConfig } = await import('@oselya/kit');
      const { clientConfig, resolveCollector } = await import('../config.ts');
      const { createNotCollectorError, describeRejection, requestCollector } =
        await import('../http.ts');
      const { Value } = await import('typebox/value');
      const { formatJson } = await import('@oselya/inventory/text');
      const collector = resolveCollector(loadConfig(clientConfig, env));
      const path = `/api/v1/search/${similar ? 'similar' : 'fulltext'}`;
      const body = { query: words.join(' '), limit };
      const response = await requestCollector(collector, path, { method: 'POST', body });
      if (response.status >= 400) {
        const rejectionOptions = { subject: 'the search', scope: 'search' };
        throw new CommandError(describeRejection(response, rejectionOptions));
      }
      if (response.status !== 200 || !Value.Check(resultsSchema, response.body)) {
        throw createNotCollectorError(collector.url);
      }
      print(json ? formatJson(response.body, 2) : await formatResults(response.body));
    });
}

function parseLimit(value: string): number {
  const limit = /^\d{1,3}$/.test(value) ? Number(value) : 0;
  if (limit >= 1 && limit <= MAX_LIMIT) return limit;
  throw new InvalidArgumentError(`It must be an integer from 1 to ${MAX_LIMIT}.`);
}

const nullableStringSchema = Type.Union([Type.String(), Type.Null()]);

/** Fields of a search response that this module names. The details line contains others. Contract 4, Search. */
const resultsSchema = Type.Object({
  items: Type.Array(
    Type.Object({
      listing: Type.Object({
        listing_id: Type.Integer(),
        title: nullableStringSchema,
        summary: nullableStringSchema,
        description: Type.String(),
        currency: nullableStringSchema,
      }),
      rank: Type.Optional(Type.Number()),
      distance: Type.Optional(Type.Number()),
    }),
  ),
  total: Type.Optional(
    Type.Object({
      value: Type.Integer(),
      relation: Type.Union([Type.Literal('eq'), Type.Literal('gte')]),
    }),
  ),
});

type Results = Static<typeof resultsSchema>;

/** Formats results for a terminal: two lines per listing, and a last line with the count. */
export async function formatResults({ items, total }: Results): Promise<string> {
  const { FIELD_NAMES, getField } = await import('@oselya/collector/fields');
  const { formatAmount, formatListingId, formatPrice } = await import('@oselya/kit');
  const { sanitizeLine } = await import('../terminal.ts');
  const lineFields = FIELD_NAMES.filter((name) => getField(name).display === 'line');
  const lines = items.flatMap(({ listing, rank, distance }) => {
    const values: Partial<Record<string, unknown>> = listing;
    const details = lineFields.map((name) => {
      const value = values[name];
      if (typeof value === 'string') return sanitizeLine(value);
      if (typeof value !== 'number') return '';
      if (name === 'price') return formatPrice(value, sanitizeLine(listing.currency ?? ''));
      return formatAmount(value, getField(name).unit);
    });
    if (rank !== undefined) details.push(`rank ${rank.toPrecision(3)}`);
    if (distance !== undefined) details.push(`distance ${distance.toFixed(3)}`);
    const { title, summary, description } = listing;
    const id = formatListingId(listing.listing_id).padEnd(5);
    return [
      `${id} ${shortenTitle(sanitizeLine(title ?? summary ?? description))}`,
      `      ${details.filter((detail) => detail !== '').join(' · ')}`,
    ];
  });
  return [...lines, formatCount(items.length, total)].join('\n');
}

/** Shortens a title without splitting a grapheme. */
function shortenTitle(title: string): string {
  const segments = new Intl.Segmenter('uk').segment(title.slice(0, MAX_TITLE_LENGTH * 8));
  const characters = Array.from(segments, ({ segment }) => segment);
  if (characters.length <= MAX_TITLE_LENGTH) return characters.join('');
  return `${characters.slice(0, MAX_TITLE_LENGTH - 1).join('')}…`;
}

function formatCount(shownCount: number, total: Results['total']): string {
  // A similarity search has no total, because it ranks every listing.
  if (total === undefined) return shownCount === 0 ? '0 found' : `the ${shownCount} nearest`;
  const totalLabel = `${total.relation === 'gte' ? 'at least ' : ''}${total.value} found`;
  return shownCount < total.value ? `${totalLabel}, ${shownCount} shown` : totalLabel;
}
