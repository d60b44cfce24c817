import { formatListingId, formatNumber, formatPrice } from '@oselya/kit';
import type { Announcement } from '../conversations/announce.ts';
import type { Listing } from '../collector/client.ts';
import { shortenText } from '../text.ts';

/** Maximum number of listings that a digest shows. Other listings are counted. */
const MAX_SHOWN_LISTINGS = 10;

const MAX_TITLE_LENGTH = 120;
const MAX_URL_LENGTH = 500;

type ReportedHit = { kind: 'new' | 'cheaper'; oldPrice: number | null; listing: Listing };

const ukrainian = {
  head: (name: string) => `Збережений пошук «${name}»`,
  fresh: (count: number) => `нових: ${count}`,
  cheaper: (count: number) => `подешевшало: ${count}`,
  untitled: 'Без назви',
  before: (price: string) => `було ${price}`,
  rooms: (count: number) => `${count} кімн.`,
  area: (squareMetres: string) => `${squareMetres} м²`,
  more: (count: number) => `і ще ${count}`,
};

type Phrases = typeof ukrainian;

const english: Phrases = {
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
 * Composes the message of a digest: in Ukrainian if the search has Cyrillic letters, else in English. Models get only the
 * ids of the listings, because strangers wrote the titles.
 * @param digest.hits All reported listings. The message shows the first `MAX_SHOWN_LISTINGS`.
 */
export function composeDigest({
  name,
  query,
  hits,
}: {
  name: string;
  query: string;
  hits: readonly ReportedHit[];
}): Announcement {
  const phrases = /\p{Script=Cyrillic}/u.test(`${name} ${query}`) ? ukrainian : english;
  const shown = hits.slice(0, MAX_SHOWN_LISTINGS);
  const more = hits.length - shown.length;
  const count = (kind: ReportedHit['kind']) => hits.filter((hit) => hit.kind === kind).length;
  const counts = [
    count('new') > 0 && phrases.fresh(count('new')),
    count('cheaper') > 0 && phrases.cheaper(count('cheaper')),
  ];
  const listIds = (kind: ReportedHit['kind']) =>
    shown.filter((hit) => hit.kind === kind).map(({ listing }) => listing.listing_id);
  return {
    content: [
      `${phrases.head(toLine(name))}: ${counts.filter(Boolean).join(', ')}`,
      ...shown.map((hit, index) => formatHit(hit, index + 1, phrases)),
      ...(more > 0 ? [phrases.more(more)] : []),
    ].join('\n\n'),
    kept: JSON.stringify({
      new_listing_ids: listIds('new'),
      cheaper_listing_ids: listIds('cheaper'),
      ...(more > 0 && { more }),
    }),
  };
}

function formatHit({ oldPrice, listing }: ReportedHit, number: number, phrases: Phrases): string {
  const { title, price, currency, city, district, rooms, area_total: area, url } = listing;
  const now = price === null ? undefined : formatPrice(price, currency);
  const before =
    oldPrice !== null && price !== null && price < oldPrice
      ? ` (${phrases.before(formatPrice(oldPrice, currency))})`
      : '';
  const facts = [
    now === undefined ? undefined : now + before,
    [city, district].flatMap((part) => toLine(part ?? '') || []).join(', '),
    rooms === null ? undefined : phrases.rooms(rooms),
    area === null ? undefined : phrases.area(formatNumber(area)),
    formatListingId(listing.listing_id),
  ].filter(Boolean);
  const name = shortenText(toLine(title ?? ''), MAX_TITLE_LENGTH) || phrases.untitled;
  return [`${number}. ${name}`, facts.join(' · '), parseWebUrl(url)]
    .filter((line) => line !== undefined)
    .join('\n   ');
}

/** Characters that change the direction of the following text. Unicode Standard Annex 9, §2. */
const DIRECTION_MARKS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** Converts a text to one line that cannot affect the lines around it. */
const toLine = (text: string) =>
  text
    .replace(DIRECTION_MARKS, '')
    .replace(/[\s\p{Cc}]+/gu, ' ')
    .trim();

/** Returns the URL of a web page, or undefined for other and for long URLs. */
function parseWebUrl(url: string | null): string | undefined {
  const parsed = url === null || url.length > MAX_URL_LENGTH ? null : URL.parse(url);
  return parsed !== null && /^https?:$/.test(parsed.protocol) ? parsed.href : undefined;
}
