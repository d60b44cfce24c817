import type { Messages } from '../i18n/en/index.ts';
import { FACT_NAMES, type FactName, formatFact } from '../listings/facts.ts';
import type { Listing } from '../listings/types.ts';

/** One fact of all compared listings. */
export type ComparedFact = {
  name: FactName;
  values: (string | undefined)[];
  /** Whether the value of each listing is the best one. */
  isBest: boolean[];
  isSame: boolean;
};

/** Facts whose lowest or highest number is the best. Prices count only in one currency and for one kind of deal. */
const BEST: Partial<Record<FactName, 'lowest' | 'highest'>> = {
  price: 'lowest',
  price_per_m2: 'lowest',
  rooms: 'highest',
  area_total: 'highest',
  area_living: 'highest',
  area_kitchen: 'highest',
  year_built: 'highest',
};

/** Compares listings fact by fact. Facts that no listing has are left out. */
export function compareListings(
  listings: readonly Listing[],
  { language, texts }: { language: string; texts: Messages['listings'] },
): ComparedFact[] {
  // A rent and a price of a sale cannot be compared.
  const moneyKinds = new Set(
    listings.map(({ currency, deal_type: deal }) => `${currency} ${deal}`),
  );
  return FACT_NAMES.flatMap((name) => {
    const values = listings.map((listing) =>
      formatFact(name, listing[name], { currency: listing.currency, language, texts }),
    );
    if (values.every((value) => value === undefined)) return [];
    const isComparable = !name.startsWith('price') || moneyKinds.size === 1;
    const isSame = new Set(values).size === 1;
    const best = isComparable && !isSame ? findBest(name, listings) : undefined;
    const isBest = listings.map((listing) => best !== undefined && listing[name] === best);
    return [{ name, values, isBest, isSame }];
  });
}

function findBest(name: FactName, listings: readonly Listing[]): number | undefined {
  const numbers = listings
    .map((listing) => listing[name])
    .filter((value) => typeof value === 'number');
  if (numbers.length < 2) return undefined;
  if (BEST[name] === undefined) return undefined;
  return BEST[name] === 'lowest' ? Math.min(...numbers) : Math.max(...numbers);
}
