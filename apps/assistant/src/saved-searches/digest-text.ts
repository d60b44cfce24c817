import { formatListingId, formatNumber, formatPrice } from '@oselya/kit';
import type { Announcement } from '../conversations/announce.ts';
import type { Listing } from '../collector/client.ts';
import { shortenText } from '../text.ts';

/** Number of listings that a digest shows; the others are counted. */
export const SHOWN_LISTINGS = 10;

/** Maximum lengths of a listing's title and address, in characters. */
const TITLE_LENGTH = 120;
const URL_LENGTH = 500;

/** A listing that a digest shows. */
export type ShownHit = { kind: 'new' | 'cheaper'; oldPrice: number | null; listing: Listing };

/** The phrases of digests in one language. */
type Words = {
  head: (name: string) => string;
  fresh: (count: number) => string;
  cheaper: (count: number) => string;
  untitled: string;
  before: (price: string) => string;
  rooms: (count: number) => string;
  area: (squareMetres: string) => string;
  more: (count: number) => string;
};

const ukrainian: Words = {
  head: (name) => `Збережений пошук «${name}»`,
  fresh: (count) => `нових: ${count}`,
  cheaper: (count) => `подешевшало: ${count}`,
  untitled: 'Без назви',
  before: (price) => `було ${price}`,
  rooms: (count) => `${count} кімн.`,
  area: (squareMetres) => `${squareMetres} м²`,
  more: (count) => `і ще ${count}`,
};

const english: Words = {
  head: (name) => `Saved search "${name}"`,
  fresh: (count) => `${count} new`,
  cheaper: (count) => `${count} cheaper`,
  untitled: 'No title',
  before: (price) => `was ${price}`,
  rooms: (count) => `${count} rooms`,
  area: (squareMetres) => `${squareMetres} m²`,
  more: (count) => `and ${count} more`,
};

/**
 * Composes the message of a digest: for people in Ukrainian if the search has Cyrillic letters, else in English; for
 * models by ids alone, since strangers wrote the titles.
 * @param digest.hits The listings to show.
 * @param digest.counts The number of all reported listings.
 */
export function composeDigest({
  name,
  query,
  hits,
  counts,
}: {
  name: string;
  query: string;
  hits: readonly ShownHit[];
  counts: { new: number; cheaper: number };
}): Announcement {
  const words = /\p{Script=Cyrillic}/u.test(`${name} ${query}`) ? ukrainian : english;
  const parts = [
    ...(counts.new > 0 ? [words.fresh(counts.new)] : []),
    ...(counts.cheaper > 0 ? [words.cheaper(counts.cheaper)] : []),
  ];
  const entries = hits.map((hit, index) => describe(hit, index + 1, words));
  const left = counts.new + counts.cheaper - hits.length;
  const idsOf = (kind: ShownHit['kind']) =>
    hits.filter((hit) => hit.kind === kind).map(({ listing }) => listing.listing_id);
  return {
    content: [
      `${words.head(oneLine(name))}: ${parts.join(', ')}`,
      ...entries,
      ...(left > 0 ? [words.more(left)] : []),
    ].join('\n\n'),
    kept: JSON.stringify({
      new_listing_ids: idsOf('new'),
      cheaper_listing_ids: idsOf('cheaper'),
      ...(left > 0 && { more: left }),
    }),
  };
}

function describe({ oldPrice, listing }: ShownHit, number: number, words: Words): string {
  const { title, price, currency, city, district, rooms, area_total: area, url } = listing;
  const now = price === null ? undefined : formatPrice(price, currency);
  const before =
    oldPrice !== null && price !== null && price < oldPrice
      ? ` (${words.before(formatPrice(oldPrice, currency))})`
      : '';
  const facts = [
    now === undefined ? undefined : now + before,
    [city, district].flatMap((part) => oneLine(part ?? '') || []).join(', '),
    rooms === null ? undefined : words.rooms(rooms),
    area === null ? undefined : words.area(formatNumber(area)),
    formatListingId(listing.listing_id),
  ].filter(Boolean);
  const name = shortenText(oneLine(title ?? ''), TITLE_LENGTH) || words.untitled;
  return [`${number}. ${name}`, facts.join(' · '), linkOf(url)]
    .filter((line) => line !== undefined)
    .join('\n   ');
}

/** Characters that change the direction of the text after them. Unicode Standard Annex 9, §2. */
const DIRECTION_MARKS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** Returns a text as one line that cannot affect the lines around it. */
const oneLine = (text: string) =>
  text
    .replace(DIRECTION_MARKS, '')
    .replace(/[\s\p{Cc}]+/gu, ' ')
    .trim();

/** Returns an address if it is one of a web page. */
function linkOf(url: string | null): string | undefined {
  const parsed = url === null || url.length > URL_LENGTH ? null : URL.parse(url);
  return parsed !== null && /^https?:$/.test(parsed.protocol) ? parsed.href : undefined;
}
