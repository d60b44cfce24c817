/** Whether `npm run test:soak` runs, which repeats faults much more often than CI. */
const isSoak = process.env['OSELYA_SOAK'] === '1';

/** Returns how often a fault is repeated: in a soak run, or in CI. */
export function repetitions({ soak, ci }: { soak: number; ci: number }): number {
  return isSoak ? soak : ci;
}
