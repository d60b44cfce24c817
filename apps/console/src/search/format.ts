import type { Price } from './queries.ts';

/** Writes an amount without cents, as portals do. */
export function formatPrice({ amount, currency }: Price, language: string): string {
  return new Intl.NumberFormat(language, {
    style: 'currency',
    currency,
    currencyDisplay: 'narrowSymbol',
    maximumFractionDigits: 0,
  }).format(amount);
}

/** Returns how much a price has changed, such as −8 for a price 8 % below the earlier one. */
export const computeChange = (now: number, before: number): number =>
  before === 0 ? 0 : Math.round((now / before - 1) * 100);

/** Splits the highlight of a hit into parts, each of which is marked or not. The tags are text, never HTML. */
export function splitHighlight(highlight: string): { text: string; isMarked: boolean }[] {
  return highlight
    .split(/(<mark>.*?<\/mark>)/s)
    .filter(Boolean)
    .map((part) => {
      const marked = /^<mark>(.*)<\/mark>$/s.exec(part)?.[1];
      return { text: unescape(marked ?? part), isMarked: marked !== undefined };
    });
}

const ENTITIES: Record<string, string> = {
  '&lt;': '<',
  '&gt;': '>',
  '&amp;': '&',
  '&quot;': '"',
  '&#39;': "'",
};
const unescape = (text: string) =>
  text.replaceAll(/&(?:lt|gt|amp|quot|#39);/g, (entity) => ENTITIES[entity] ?? entity);
