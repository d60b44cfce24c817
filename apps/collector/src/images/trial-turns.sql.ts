import { type Kysely, sql } from 'kysely';
import type { Tables } from '../database/tables.ts';

/** The row that all processes share. */
const NAME = 'picture_trial';

/**
 * Takes the turn at a trial of a picture (see `createAskForPicture`); no connection is held meanwhile.
 * @param longestMs A trial that has not ended after so long never will: its process was killed.
 * @returns What tells the turn from others when it ends; undefined while another trial goes on.
 */
export async function takeTrialTurn(
  db: Kysely<Tables>,
  longestMs: number,
): Promise<string | undefined> {
  const { rows } = await sql<{ taken_at: string }>`
    insert into upkeep_turns as turn (name) values (${NAME})
    on conflict (name) do update set done_at = null,
      -- No two turns are told apart by the same time, however coarse the server's clock is.
      taken_at = greatest(now(), turn.taken_at + interval '1 microsecond')
    where turn.done_at is not null
      or turn.taken_at <= now() - ${longestMs} * interval '1 millisecond'
    returning taken_at::text`.execute(db);
  return rows[0]?.taken_at;
}

/** Ends a turn, unless somebody else has it by now. */
export async function endTrialTurn(db: Kysely<Tables>, takenAt: string): Promise<void> {
  await sql`update upkeep_turns set done_at = now()
    where name = ${NAME} and taken_at = ${takenAt}::timestamptz`.execute(db);
}
