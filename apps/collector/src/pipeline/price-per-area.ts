import type { Facts } from './facts.ts';

/** What a square metre costs, to the hundredth; undefined where price or area is not known. */
export function pricePerArea({ price, area_total: area }: Facts): number | undefined {
  if (price === undefined || area === undefined || area === 0) return undefined;
  return Math.round((price / area) * 100) / 100;
}
