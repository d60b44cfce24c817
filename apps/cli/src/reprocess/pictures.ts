import type { Choice, Maintenance } from '@oselya/collector';
import { showProgress } from '../progress.ts';
import type { ReprocessOptions } from './reprocess.ts';
import { describeFailure, describePictures, type PicturesSummary } from './summary.ts';
import { type Stop, walk } from './walk.ts';

/** Whose pictures are described again, and how the person takes part in it. */
export type PicturesOptions = Pick<
  ReprocessOptions,
  'limit' | 'dryRun' | 'yes' | 'signal' | 'print' | 'output' | 'ask'
> & { choice: Omit<Choice, 'outdated'> };

/**
 * Tells how many listings have pictures that another prompt or model described, or none; then, when that is
 * wanted, has these described again.
 * @returns What became of the listings, and what stopped it unless it came to its end.
 */
export async function reprocessPictures(
  { reprocessPictures: work }: Pick<Maintenance, 'reprocessPictures'>,
  { choice, limit, dryRun, yes, signal, print, output, ask }: PicturesOptions,
): Promise<{ summary: PicturesSummary; stopped: Stop | undefined }> {
  const summary: PicturesSummary = { described: 0, left: 0, failed: 0 };
  const { after } = choice;
  const total = Math.min(limit, await work.count(choice));
  print(`${total} listings have pictures that another prompt or model described, or none.`);
  const isWanted =
    !dryRun && total > 0 && (yes || (await ask(`Describe those of ${total} listings?`, signal)));
  if (!isWanted) {
    print('Nothing was changed.');
    return { summary, stopped: signal.aborted ? { after } : undefined };
  }
  const progress = showProgress({ what: 'listings', total }, output.stderr);
  const stopped = await walk(
    work.describe(choice, { limit, signal }),
    (described) => {
      summary[described.outcome] += 1;
      const lines = describeFailure(described.listingId, described);
      if (lines.length > 0) progress.clear();
      for (const line of lines) print(line);
      return Promise.resolve();
    },
    { after, signal, onDone: (count) => progress.update(count) },
  );
  progress.stop();
  for (const line of describePictures(summary)) print(line);
  return { summary, stopped };
}
