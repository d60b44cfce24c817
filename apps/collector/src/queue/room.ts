import type { Slots } from './slots.ts';

/** How many jobs one source may be given. */
export type Room = {
  /** Of those that are not named. */
  ofOne: number;
  left: Readonly<Record<string, number>>;
};

/**
 * How many slots of a process one source may have, where there are others: all but a quarter of them, and all but
 * one at least. Whoever has a single slot has none to reserve.
 */
export function mostOfOne(slots: number): number {
  return Math.max(1, slots - Math.max(1, Math.floor(slots / 4)));
}

/**
 * What a process may claim of one source: for the slots that it may still have, and ahead as for all.
 * @param most How many of its slots one source may have.
 * @param ahead How many jobs it claims beside those for free slots.
 */
export function roomFor(
  slots: Pick<Slots, 'workingOf'>,
  most: number,
  ahead: number,
): Room | undefined {
  if (most === Infinity) return undefined;
  const left = [...slots.workingOf()].map(
    ([source, jobs]) => [source, ahead + Math.max(0, most - jobs)] as const,
  );
  return { ofOne: ahead + most, left: Object.fromEntries(left) };
}
