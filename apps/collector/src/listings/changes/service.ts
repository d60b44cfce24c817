import type { Kysely } from 'kysely';
import type { Tables } from '../../database/tables.ts';
import { problem } from '../../errors.ts';
import { givePositions, listChanges, readEnd, removeChanges } from './repository.ts';
import { type Change, changeCursors, KEPT_DAYS, NO_CURSOR } from './schemas.ts';

/** How many changes one statement gives their positions, or removes: it takes a moment only. */
const BATCH = 10_000;

/**
 * The changes after a cursor, in the order in which they were committed: none is left out because it took
 * longer, and none is given twice. Without a cursor it gives the one from which on everything is to come.
 * @param sources Only changes of these; null is any.
 * @throws ProblemError `validation_failed` where `after` is no cursor of this database.
 */
export async function readChanges(
  db: Kysely<Tables>,
  options: { after: string | undefined; sources: readonly string[] | null; limit: number },
): Promise<{ items: Change[]; cursor: string; has_more: boolean }> {
  const { limit, sources } = options;
  const after = changeCursors.read(options.after);
  if (after === undefined) return { items: [], cursor: await startHere(db), has_more: false };
  const isBehind = (await givePositions(db, BATCH)) === BATCH;
  const { seen, given } = await readEnd(db);
  // Such a one comes from a database that this one is not, or is an older copy of.
  if (after > given) throw problem('validation_failed', { errors: [NO_CURSOR] });
  const rows = await listChanges(db, { after, upTo: seen, sources, limit: limit + 1 });
  const shown = rows.slice(0, limit);
  const isCut = rows.length > limit;
  const end = isCut ? shown.at(-1)?.position : Math.max(after, seen);
  return {
    items: shown.map(({ position: _position, created_at, ...change }) => ({
      ...change,
      changed_at: created_at.toISOString(),
    })),
    cursor: changeCursors.write(end ?? after),
    has_more: isCut || isBehind,
  };
}

/** The cursor after all that is committed now. */
async function startHere(db: Kysely<Tables>): Promise<string> {
  for (let batch = BATCH; batch === BATCH;) batch = await givePositions(db, BATCH);
  const { seen } = await readEnd(db);
  return changeCursors.write(seen);
}

/**
 * Removes changes that are older than `KEPT_DAYS`, batch after batch.
 * @param signal Ends it after the batch in progress.
 * @returns How many.
 */
export async function removeOldChanges(db: Kysely<Tables>, signal: AbortSignal): Promise<number> {
  let total = 0;
  for (let batch = BATCH; batch === BATCH && !signal.aborted; total += batch) {
    batch = await removeChanges(db, { olderThanDays: KEPT_DAYS, limit: BATCH });
  }
  return total;
}
