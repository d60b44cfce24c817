import type { Choice, DescribeOutcome, Maintenance } from '@oselya/collector';
import { showProgress } from '../progress.ts';
import type { ReprocessOptions } from './reprocess.ts';

export type PicturesOptions = Pick<
  ReprocessOptions,
  'limit' | 'dryRun' | 'yes' | 'signal' | 'print' | 'ask'
> & { choice: Omit<Choice, 'outdated'> };

/**
 * Tells how many listings have pictures that another prompt or model described, or none; then, when that is
 * wanted, has these described again.
 * @returns What became of the listings, and whether somebody stopped it.
 * @throws PicturesFailedError.
 */
export async function reprocessPictures(
  { reprocessPictures: work }: Pick<Maintenance, 'reprocessPictures'>,
  { choice, limit, dryRun, yes, signal, print, ask }: PicturesOptions,
): Promise<{ done: Record<DescribeOutcome, number>; isStopped: boolean }> {
  const done: Record<DescribeOutcome, number> = { described: 0, left: 0, failed: 0 };
  const total = Math.min(limit, await work.count(choice));
  print(`${total} listings have pictures that another prompt or model described, or none.`);
  const isWanted =
    !dryRun && total > 0 && (yes || (await ask(`Describe those of ${total} listings?`, signal)));
  if (!isWanted) {
    print('Nothing was changed.');
    return { done, isStopped: signal.aborted };
  }
  const progress = showProgress({ what: 'listings', total });
  try {
    let count = 0;
    for await (const { outcome } of work.describe(choice, { limit, signal })) {
      done[outcome] += 1;
      progress.update((count += 1));
    }
  } finally {
    progress.stop();
    print(`The pictures of ${done.described} listings were described.`);
    if (done.left > 0)
      print(`  ${done.left} have no payload that is completed, and were left alone`);
    if (done.failed > 0) print(`  ${done.failed} failed: see their payloads, and the model`);
  }
  return { done, isStopped: signal.aborted };
}
