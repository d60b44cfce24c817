import type { Compared } from './compared.ts';
import { distanceMetres } from './distance.ts';
import { AREA_RATIO } from './ratios.ts';

/** Sites blur coordinates, and some put a flat at the middle of its district. */
const MAX_METRES = 3000;

/** Facts of which a property has one. */
const ONE_EACH = ['deal_type', 'city_key', 'rooms', 'floor'] as const;

/** Whether two listings say of themselves what cannot be true of one property. */
export function isContradiction(one: Compared, other: Compared): boolean {
  return (
    ONE_EACH.some((fact) => differ(one[fact], other[fact])) ||
    isOtherArea(one.area_total, other.area_total) ||
    (distanceMetres(one, other) ?? 0) > MAX_METRES
  );
}

function differ(one: string | number | null, other: string | number | null): boolean {
  return one !== null && other !== null && one !== other;
}

function isOtherArea(one: number | null, other: number | null): boolean {
  if (one === null || other === null || one === 0 || other === 0) return false;
  const isRounded = Math.abs(one - other) < 1;
  return !isRounded && Math.max(one, other) / Math.min(one, other) > AREA_RATIO;
}
