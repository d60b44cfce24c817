import type { Reason, ReasonName } from '../tables.ts';
import { isContradiction } from './contradiction.ts';
import type { Compared } from './compared.ts';
import { area, type Scorer, pictures, place, price, rooms, seller, text } from './evidence.ts';

/** Each of them, in the order in which they are told. */
export const REASONS = [
  'text',
  'place',
  'area',
  'rooms',
  'price',
  'pictures',
  'seller',
] as const satisfies readonly ReasonName[];

/** How likely two listings are the same property, and why: the parts of the reasons add up to the score. */
export type Comparison = { score: number; reasons: Reason[] };

/**
 * From this score on two listings are taken for the same property. It is where, on the labelled pairs of
 * the golden set, nothing is taken for the same that is not, with some room on both sides.
 */
export const THRESHOLD = 0.56;

const SCORERS = { text, place, area, rooms, price, pictures, seller } satisfies Record<
  ReasonName,
  Scorer
>;

/**
 * How likely two listings are the same property, from 0 to 1, and why: the parts add up to the score. What
 * contradicts itself, such as sale and rent, or the third floor and the fifth, is not the same whatever
 * else agrees. Both sides weigh the same: swapped, they give the same.
 * @returns Undefined for a contradiction.
 */
export function compare(one: Compared, other: Compared): Comparison | undefined {
  if (isContradiction(one, other)) return undefined;
  const reasons = REASONS.flatMap((reason): Reason[] => {
    const found = SCORERS[reason](one, other);
    if (found === undefined || found.part === 0) return [];
    return [{ reason, part: round(found.part), detail: found.detail }];
  });
  const sum = reasons.reduce((total, { part }) => total + part, 0);
  return { score: round(Math.min(1, Math.max(0, sum))), reasons };
}

/** What is stored and shown has three decimals, and so has what is compared with the threshold. */
function round(value: number): number {
  return Number(value.toFixed(3));
}
