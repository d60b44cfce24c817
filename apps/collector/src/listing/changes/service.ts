import type { Kysely } from 'kysely';
import type { Tables } from '../../tables.ts';
import { problem } from '../../errors.ts';
import { findTime, givePositions, listChanges, readEnd, removeChanges } from './repository.ts';
import { type Change, changeCursors, KEPT_DAYS, NO_CURSOR } from './schemas.ts';

/** How many changes one statement of the upkeep gives their positions, or removes: it takes a moment only. */
const BATCH = 10_000;

/** How many changes a request gives their positions: whoever asks waits for that. */
const MAX_PLACED = 1000;

/** How many positions a page looks through for the sources of its reader, who may have few of the changes. */
const MAX_SCANNED = 50_000;

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
  const from = changeCursors.read(options.after);
  const isBehind = (await givePositions(db, MAX_PLACED)) !== 'nothing';
  const { seen, given } = await readEnd(db);
  if (from === undefined) {
    return { items: [], cursor: await cursorAt(db, seen), has_more: isBehind };
  }
  const [after] = from;
  if (after > given || !(await isFromHere(db, from))) {
    throw problem('validation_failed', { errors: [NO_CURSOR] });
  }
  const upTo = Math.max(after, Math.min(seen, after + MAX_SCANNED));
  const rows = await listChanges(db, { after, upTo, sources, limit: limit + 1 });
  const shown = rows.slice(0, limit);
  const isCut = rows.length > limit;
  const end = (isCut ? shown.at(-1)?.position : undefined) ?? upTo;
  return {
    items: shown.map(({ position: _position, created_at, ...change }) => ({
      ...change,
      changed_at: created_at.toISOString(),
    })),
    cursor: end === after ? changeCursors.write(from) : await cursorAt(db, end),
    has_more: isCut || upTo < seen || isBehind,
  };
}

/** The cursor after a position, with what tells this database from an older copy that went on by itself. */
async function cursorAt(db: Kysely<Tables>, position: number): Promise<string> {
  const time = await findTime(db, position);
  return changeCursors.write([position, time?.getTime() ?? null]);
}

/**
 * Whether the change that a cursor stands at is the one that it was made of. Of one that is not kept any more
 * nothing can be said: it passes.
 */
async function isFromHere(
  db: Kysely<Tables>,
  [position, time]: [position: number, time: number | null],
): Promise<boolean> {
  const found = await findTime(db, position);
  return found === undefined || found.getTime() === time;
}

/**
 * Gives positions to all changes that have none, batch after batch, so that whoever reads them next has little
 * to wait for.
 * @param signal Ends it after the batch in progress.
 */
export async function placeChanges(db: Kysely<Tables>, signal: AbortSignal): Promise<void> {
  for (let left = 'more'; left === 'more' && !signal.aborted;) {
    left = await givePositions(db, BATCH);
  }
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
