import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';

const MAX_TITLE_LENGTH = 90;

const nullableStringSchema = Type.Union([Type.String(), Type.Null()]);

const circleSchema = Type.Object({
  latitude: Type.Number(),
  longitude: Type.Number(),
  radius_m: Type.Number(),
});

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
  /** Filters that the collector took out of the words. */
  understood: Type.Optional(
    Type.Record(Type.String(), Type.Union([Type.String(), Type.Number(), circleSchema])),
  ),
  total: Type.Optional(
    Type.Object({
      value: Type.Integer(),
      relation: Type.Union([Type.Literal('eq'), Type.Literal('gte')]),
    }),
  ),
});

type Results = Static<typeof resultsSchema>;

/** Returns whether a response body is that of a search. */
export const isResults = (body: unknown): body is Results => Value.Check(resultsSchema, body);

/**
 * Formats results for a terminal: two lines per listing, the limits that the collector understood, and a last line with
 * the count.
 */
export async function formatResults({ items, total, understood = {} }: Results): Promise<string> {
  const { FIELD_NAMES, getField } = await import('@oselya/collector/fields');
  const { formatAmount, formatListingId, formatPrice } = await import('@oselya/kit');
  const { sanitizeLine } = await import('./terminal.ts');
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
  const limits = Object.entries(understood).map(([name, value]) => {
    const text =
      typeof value === 'object'
        ? `${value.latitude} ${value.longitude} within ${value.radius_m / 1000} km`
        : sanitizeLine(String(value));
    return `${name.replaceAll('_', ' ')} ${text}`;
  });
  if (limits.length > 0) lines.push(`understood: ${limits.join(', ')}`);
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
