/**
 * How far the areas and the prices of one property may be apart, as the ratio of the larger to the smaller.
 * Candidates are looked for as far as the comparison lets them through: with other numbers there, some would be
 * found in vain, or never.
 */

/** Measured twice, a flat has not the same area to the decimal; beyond this it is another. */
export const AREA_RATIO = 1.03;

/** Wide enough for agencies that ask more. */
export const PRICE_RATIO = 1.3;
