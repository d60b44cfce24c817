import { formatListingId, formatNumber, formatPrice } from '@oselya/kit';
import type { Announcement } from '../chat/announce.ts';
import { shortenText } from '../text.ts';
import type { Heading, Waiting } from './digests.sql.ts';

/** How many listings a digest shows; of the others it says how many they are. */
export const SHOWN_LISTINGS = 10;

/** How much of a listing's title and address, in characters. */
const TITLE_LENGTH = 120;
const URL_LENGTH = 500;

/** What digests say, in one language. */
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
 * The message of a digest: for people, in Ukrainian where the search is written in Cyrillic and else in English; and
 * for models by ids alone, since titles are what strangers wrote.
 */
export function composeDigest({ name, query, hits, counts }: Heading & Waiting): Announcement {
  const words = /\p{Script=Cyrillic}/u.test(`${name} ${query}`) ? ukrainian : english;
  const parts = [
    ...(counts.new > 0 ? [words.fresh(counts.new)] : []),
    ...(counts.cheaper > 0 ? [words.cheaper(counts.cheaper)] : []),
  ];
  const entries = hits.map((hit, index) => describe(hit, index + 1, words));
  const left = counts.new + counts.cheaper - hits.length;
  return {
    content: [
      `${words.head(oneLine(name))}: ${parts.join(', ')}`,
      ...entries,
      ...(left > 0 ? [words.more(left)] : []),
    ].join('\n\n'),
    kept: JSON.stringify({
      new_listing_ids: idsOf(hits, 'new'),
      cheaper_listing_ids: idsOf(hits, 'cheaper'),
      ...(left > 0 && { more: left }),
    }),
  };
}

type WaitingHit = Waiting['hits'][number];

const idsOf = (hits: readonly WaitingHit[], kind: WaitingHit['kind']) =>
  hits.filter((hit) => hit.kind === kind).map(({ listing_id }) => listing_id);

function describe(hit: WaitingHit, number: number, words: Words): string {
  const { listing_id: id, old_price: old, listing } = hit;
  const { title, price, currency, city, district, rooms, area_total: area, url } = listing;
  const name = shortenText(oneLine(title ?? ''), TITLE_LENGTH) || words.untitled;
  const now = price === null ? undefined : formatPrice(price, currency);
  const isCheaper = old !== null && price !== null && price < old;
  const cost =
    now !== undefined && isCheaper ? `${now} (${words.before(formatPrice(old, currency))})` : now;
  const place = [city, district].flatMap((part) => oneLine(part ?? '') || []).join(', ');
  const facts = [
    cost,
    place,
    rooms === null ? undefined : words.rooms(rooms),
    area === null ? undefined : words.area(formatNumber(area)),
    formatListingId(id),
  ].filter(Boolean);
  const link = linkOf(url);
  return [`${number}. ${name}`, facts.join(' · '), ...(link === undefined ? [] : [link])].join(
    '\n   ',
  );
}

/** What turns the direction of the text after it, prices and links with it. Unicode Standard Annex 9, §2. */
const TURNS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** A title is a line: what stands in it begins nothing of its own, and changes nothing around it. */
const oneLine = (text: string) =>
  text
    .replace(TURNS, '')
    .replace(/[\s\p{Cc}]+/gu, ' ')
    .trim();

/** An address that leads to a page, and nowhere else. */
function linkOf(url: string | null): string | undefined {
  const parsed = url === null || url.length > URL_LENGTH ? null : URL.parse(url);
  return parsed !== null && /^https?:$/.test(parsed.protocol) ? parsed.href : undefined;
}
