const isSoak = process.env['OSELYA_SOAK'] === '1';

/** Returns the number of repetitions of a fault: `soak` with `npm run test:soak`, otherwise `ci`. */
export function getRepetitions({ soak, ci }: { soak: number; ci: number }): number {
  return isSoak ? soak : ci;
}
