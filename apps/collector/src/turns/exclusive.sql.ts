import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';

/** A turn that was taken, told from others of its name by when that was. */
export type ExclusiveTurn = { name: string; takenAt: string };

/**
 * Takes a turn at work that one process does at a time; no connection is held meanwhile. It comes around as soon as it
 * has ended, which `takeTurn` of recurring work does not.
 * @param longestMs Work that has not ended after so long never will: its process was killed.
 * @returns Undefined while another has the turn.
 */
export async function takeExclusiveTurn(
  db: Kysely<Tables>,
  name: string,
  longestMs: number,
): Promise<ExclusiveTurn | undefined> {
  const { rows } = await sql<ExclusiveTurn>`
    insert into upkeep_turns as turn (name) values (${name})
    on conflict (name) do update set done_at = null,
      -- No two turns are told apart by the same time, however coarse the server's clock is.
      taken_at = greatest(now(), turn.taken_at + interval '1 microsecond')
    where turn.done_at is not null
      or turn.taken_at <= now() - ${longestMs} * interval '1 millisecond'
    returning name, taken_at::text as "takenAt"`.execute(db);
  return rows[0];
}

/** Ends a turn, unless somebody else has it by now. */
export async function endExclusiveTurn(
  db: Kysely<Tables>,
  { name, takenAt }: ExclusiveTurn,
): Promise<void> {
  await sql`update upkeep_turns set done_at = now()
    where name = ${name} and taken_at = ${takenAt}::timestamptz`.execute(db);
}
