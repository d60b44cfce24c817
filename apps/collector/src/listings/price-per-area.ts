/**
 * What a square metre costs, to the hundredth and in the currency of the price; undefined where price or area is not
 * known.
 */
export function pricePerArea({
  price = null,
  area_total: area = null,
}: {
  price?: number | null | undefined;
  /** In square metres. */
  area_total?: number | null | undefined;
}): number | undefined {
  if (price === null || area === null || area === 0) return undefined;
  return Math.round((price / area) * 100) / 100;
}
