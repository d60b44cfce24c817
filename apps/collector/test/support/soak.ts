const isSoak = process.env['OSELYA_SOAK'] === '1';

/** Returns how often to repeat a fault: many with `npm run test:soak`, few in CI. */
export function getRepetitions({ soak, ci }: { soak: number; ci: number }): number {
  return isSoak ? soak : ci;
}
