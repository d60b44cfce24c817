import type { Price, PriceChange } from '../listings/types.ts';

/** Price of a listing from a time on. */
export type ChartPoint = { time: number; amount: number };

/** Prices of one listing. */
export type ChartLine = { id: number; source: string; points: ChartPoint[] };

/** Prices of a property in one currency. */
export type Chart = {
  currency: string;
  lines: ChartLine[];
  minAmount: number;
  maxAmount: number;
  from: number;
  to: number;
};

/**
 * Arranges the prices of a listing and its duplicates in one currency: the requested one where prices have been
 * converted, or else the most frequent one. Prices in another currency are left out.
 * @param changes Oldest first.
 * @param now Time at which the lines end, in milliseconds.
 * @returns Undefined without a price.
 */
export function createChart(changes: readonly PriceChange[], now: number): Chart | undefined {
  const prices = changes.flatMap((change) => {
    const price = getPrice(change);
    return price === undefined
      ? []
      : [{ ...change, ...price, time: Date.parse(change.changed_at) }];
  });
  const groups = [...Map.groupBy(prices, ({ currency }) => currency)];
  const [currency, group] = groups.toSorted(([, a], [, b]) => b.length - a.length)[0] ?? [];
  if (currency === undefined || group === undefined) return undefined;
  const lines = Array.from(
    Map.groupBy(group, ({ listing_id: id }) => id),
    ([id, ownPrices]): ChartLine => {
      const points = ownPrices.map(({ time, amount }) => ({ time, amount }));
      const end = points.slice(-1).map(({ amount }) => ({ time: now, amount }));
      return { id, source: ownPrices[0]?.source_slug ?? '', points: [...points, ...end] };
    },
  );
  const amounts = group.map(({ amount }) => amount);
  return {
    currency,
    lines,
    minAmount: Math.min(...amounts),
    maxAmount: Math.max(...amounts),
    from: Math.min(...group.map(({ time }) => time)),
    to: now,
  };
}

function getPrice({ price, currency, price_converted: converted }: PriceChange): Price | undefined {
  if (converted !== null) return { amount: converted.amount, currency: converted.currency };
  return price === null || currency === null ? undefined : { amount: price, currency };
}

/** Returns the path of a line, which keeps each price until the next change. */
export function buildPath(
  points: readonly ChartPoint[],
  place: (point: ChartPoint) => readonly [x: number, y: number],
): string {
  return points
    .map((point, index) => {
      const [x, y] = place(point);
      return index === 0 ? `M${x} ${y}` : `H${x}V${y}`;
    })
    .join('');
}
