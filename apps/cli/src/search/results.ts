import { FIELD_NAMES, type FieldName, fieldOf } from '@oselya/collector/fields';
import { formatAmount, formatListingId, formatPrice } from '@oselya/kit';
import { oneLine } from '../terminal.ts';
import type { Answer } from './answer.ts';

type Item = Answer['items'][number];

const TITLE_LENGTH = 90;

const LINE_FIELDS = FIELD_NAMES.filter((name) => fieldOf(name).shown === 'line');

/**
 * The found listings as text for a terminal, two lines each, and a last line with how many there are.
 * What a listing says is shown without anything that would act on the terminal.
 */
export function listResults(answer: Answer): string {
  return [...answer.items.flatMap(twoLines), count(answer)].join('\n');
}

function twoLines({ listing, rank, distance }: Item): string[] {
  const { title, summary, description } = listing;
  const facts = [
    ...LINE_FIELDS.map((name) => describeField(listing, name)),
    rank === undefined ? undefined : `rank ${rank.toPrecision(3)}`,
    distance === undefined ? undefined : `distance ${distance.toFixed(3)}`,
  ];
  const id = formatListingId(listing.listing_id);
  return [
    `${id.padEnd(5)} ${shortened(oneLine(title ?? summary ?? description))}`,
    `      ${facts.filter((fact) => fact !== undefined && fact !== '').join(' · ')}`,
  ];
}

function describeField(listing: Item['listing'], name: FieldName): string | undefined {
  const values: Partial<Record<string, unknown>> = listing;
  const value = values[name];
  if (typeof value === 'string') return oneLine(value);
  if (typeof value !== 'number') return undefined;
  if (name === 'price') return formatPrice(value, oneLine(listing.currency ?? ''));
  return formatAmount(value, fieldOf(name).unit);
}

function shortened(text: string): string {
  // Cut as a reader counts characters; of a text of 50,000 the beginning is enough to do so.
  const segments = new Intl.Segmenter('uk').segment(text.slice(0, TITLE_LENGTH * 8));
  const characters = Array.from(segments, ({ segment }) => segment);
  if (characters.length <= TITLE_LENGTH) return characters.join('');
  return `${characters.slice(0, TITLE_LENGTH - 1).join('')}…`;
}

function count({ items, total }: Answer): string {
  // The nearest are always as many as were asked for, where there are so many: no total is told.
  if (total === undefined) return items.length === 0 ? '0 found' : `the ${items.length} nearest`;
  const found = `${total.relation === 'gte' ? 'at least ' : ''}${total.value} found`;
  return items.length < total.value ? `${found}, ${items.length} shown` : found;
}
