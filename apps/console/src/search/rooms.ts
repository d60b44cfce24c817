import type { Search, SearchChanges } from './address.ts';

/** Number of rooms from which listings are chosen together. */
export const MAX_ROOMS = 4;

/**
 * Returns the limits after a number of rooms is chosen: a first one is the only one, further ones extend the range, and
 * one in the range becomes the only one again, or none if it was that already.
 */
export function changeRooms(
  { rooms_min: min, rooms_max: max }: Pick<Search, 'rooms_min' | 'rooms_max'>,
  rooms: number,
): Pick<SearchChanges, 'rooms_min' | 'rooms_max'> {
  const [low, high] = [min ?? 0, max ?? Infinity];
  const create = (from: number, to: number) => ({
    rooms_min: from === 0 && to > 0 ? undefined : from,
    rooms_max: to >= MAX_ROOMS ? undefined : to,
  });
  if (min === undefined && max === undefined) return create(rooms, rooms);
  const isOnly = low === rooms && (high === rooms || rooms === MAX_ROOMS);
  if (isOnly) return { rooms_min: undefined, rooms_max: undefined };
  if (rooms >= low && rooms <= high) return create(rooms, rooms);
  return create(Math.min(low, rooms), Math.max(high, rooms));
}
