import type { Messages } from '../i18n/en/index.ts';
import type { Listing, Price } from './types.ts';

/** Writes an amount without cents, as portals do. */
export function formatPrice({ amount, currency }: Price, language: string): string {
  return new Intl.NumberFormat(language, {
    style: 'currency',
    currency,
    currencyDisplay: 'narrowSymbol',
    maximumFractionDigits: 0,
  }).format(amount);
}

/** Returns the price of a listing, or null without one. */
export const getPrice = ({ price, currency }: Pick<Listing, 'price' | 'currency'>): Price | null =>
  price === null || currency === null ? null : { amount: price, currency };

/** Returns how much a price has changed, such as -8 for a price 8 % below the earlier one. */
export const computeChange = (now: number, before: number): number =>
  before === 0 ? 0 : Math.round((now / before - 1) * 100);

/** Writes a change of a price in percent with its sign. */
export const formatChange = (percent: number, language: string): string =>
  new Intl.NumberFormat(language, { style: 'percent', signDisplay: 'exceptZero' }).format(
    percent / 100,
  );

/** Writes the day of a time. */
export const formatDay = (time: string | number, language: string): string =>
  new Date(time).toLocaleDateString(language, { day: 'numeric', month: 'short', year: 'numeric' });

/** Returns the text of a value such as `rent` or `sea_view`: its translation, or else its words. */
export const translateValue = (value: string, { values }: Messages['listings']): string =>
  values[value] ?? value.replaceAll('_', ' ');

/** Returns the address of a page that may be linked, or null: a listing can have any address. */
export function parseWebAddress(address: string | null): URL | null {
  const url = address === null ? null : URL.parse(address);
  return url?.protocol === 'https:' || url?.protocol === 'http:' ? url : null;
}

/** Writes district and city. */
export const formatPlace = ({ place, city, district }: Listing): string =>
  [place?.district ?? district, place?.city ?? city].filter(Boolean).join(', ');

/** Writes rooms, area and floor, as far as they are known. */
export function listFacts(
  listing: Listing,
  language: string,
  { rooms, floor, squareMetres }: Messages['listings'],
) {
  const { area_total: area, floor: level, floors_total: levels } = listing;
  return [
    listing.rooms === null ? null : rooms(listing.rooms),
    area === null ? null : squareMetres(area.toLocaleString(language)),
    level === null ? null : floor(level, levels),
  ].filter((fact) => fact !== null);
}

/** Splits the highlight of a hit into parts, each of which is marked or not. The tags are text, never HTML. */
export function splitHighlight(highlight: string): { text: string; isMarked: boolean }[] {
  return highlight
    .split(/(<mark>.*?<\/mark>)/s)
    .filter(Boolean)
    .map((part) => {
      const marked = /^<mark>(.*)<\/mark>$/s.exec(part)?.[1];
      return { text: decodeEntities(marked ?? part), isMarked: marked !== undefined };
    });
}

/** The collector escapes five characters, each as its number. */
const decodeEntities = (text: string) =>
  text.replaceAll(/&#(\d+);/g, (_, code: string) => String.fromCodePoint(Number(code)));
