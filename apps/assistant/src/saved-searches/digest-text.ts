import { formatListingId, formatNumber, formatPrice } from '@oselya/kit';
import { writeFinds } from '../conversations/finds.ts';
import type { UnaskedMessage } from '../conversations/unasked-message.ts';
import type { Listing } from '../collector/client.ts';
import { shortenText } from '../text.ts';

/** Maximum number of listings that a digest shows. Other listings are counted. */
const MAX_SHOWN_LISTINGS = 10;

const MAX_TITLE_LENGTH = 120;
const MAX_URL_LENGTH = 500;

type ReportedHit = { kind: 'new' | 'cheaper'; oldPrice: number | null; listing: Listing };

const UKRAINIAN_PHRASES = {
  formatHeading: (name: string) => `Збережений пошук «${name}»`,
  formatNewCount: (count: number) => `нових: ${count}`,
  formatCheaperCount: (count: number) => `подешевшало: ${count}`,
  missingTitle: 'Без назви',
  formatOldPrice: (price: string) => `було ${price}`,
  formatRooms: (count: number) => `${count} кімн.`,
  formatArea: (squareMetres: string) => `${squareMetres} м²`,
  formatHiddenCount: (count: number) => `і ще ${count}`,
};

type Phrases = typeof UKRAINIAN_PHRASES;

const ENGLISH_PHRASES: Phrases = {
  formatHeading: (name) => `Saved search "${name}"`,
  formatNewCount: (count) => `${count} new`,
  formatCheaperCount: (count) => `${count} cheaper`,
  missingTitle: 'No title',
  formatOldPrice: (price) => `was ${price}`,
  formatRooms: (count) => `${count} rooms`,
  formatArea: (squareMetres) => `${squareMetres} m²`,
  formatHiddenCount: (count) => `and ${count} more`,
};

/**
 * Composes the message of a digest: in Ukrainian if the name or query has Cyrillic letters, else in English. Models get
 * only the IDs of the shown listings, because third parties wrote the titles.
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
}): UnaskedMessage {
  const phrases = /\p{Script=Cyrillic}/u.test(`${name} ${query}`)
    ? UKRAINIAN_PHRASES
    : ENGLISH_PHRASES;
  const shownHits = hits.slice(0, MAX_SHOWN_LISTINGS);
  const hiddenCount = hits.length - shownHits.length;
  const countHits = (kind: ReportedHit['kind']) => hits.filter((hit) => hit.kind === kind).length;
  const counts = [
    countHits('new') > 0 && phrases.formatNewCount(countHits('new')),
    countHits('cheaper') > 0 && phrases.formatCheaperCount(countHits('cheaper')),
  ];
  const finds = shownHits.map(({ kind, listing }) => ({
    listing_id: listing.listing_id,
    reason: kind,
  }));
  return {
    content: [
      `${phrases.formatHeading(toSingleLine(name))}: ${counts.filter(Boolean).join(', ')}`,
      ...shownHits.map((hit, index) => formatHit(hit, index + 1, phrases)),
      ...(hiddenCount > 0 ? [phrases.formatHiddenCount(hiddenCount)] : []),
    ].join('\n\n'),
    kept: writeFinds(finds, hiddenCount),
  };
}

function formatHit({ oldPrice, listing }: ReportedHit, number: number, phrases: Phrases): string {
  const { title, price, currency, city, district, rooms, area_total: area, url } = listing;
  const currentPrice = price === null ? undefined : formatPrice(price, currency);
  const oldPriceNote =
    oldPrice !== null && price !== null && price < oldPrice
      ? ` (${phrases.formatOldPrice(formatPrice(oldPrice, currency))})`
      : '';
  const details = [
    currentPrice === undefined ? undefined : currentPrice + oldPriceNote,
    [city, district].flatMap((part) => toSingleLine(part ?? '') || []).join(', '),
    rooms === null ? undefined : phrases.formatRooms(rooms),
    area === null ? undefined : phrases.formatArea(formatNumber(area)),
    formatListingId(listing.listing_id),
  ].filter(Boolean);
  const name = shortenText(toSingleLine(title ?? ''), MAX_TITLE_LENGTH) || phrases.missingTitle;
  return [`${number}. ${name}`, details.join(' · '), parseWebUrl(url)]
    .filter((line) => line !== undefined)
    .join('\n   ');
}

/** Bidirectional controls. Unicode Standard Annex 9, §2. */
const DIRECTION_MARK_PATTERN = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** Converts text to a single line that cannot affect the surrounding lines. */
const toSingleLine = (text: string) =>
  text
    .replace(DIRECTION_MARK_PATTERN, '')
    .replace(/[\s\p{Cc}]+/gu, ' ')
    .trim();

/** Returns the URL of a web page; undefined if it is missing, invalid, overlong, or has a different scheme. */
function parseWebUrl(url: string | null): string | undefined {
  const webUrl = url === null || url.length > MAX_URL_LENGTH ? null : URL.parse(url);
  return webUrl !== null && /^https?:$/.test(webUrl.protocol) ? webUrl.href : undefined;
}
