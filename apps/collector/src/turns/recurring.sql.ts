import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';

/** How often work comes around. */
export type Rhythm = {
  /** How long after it was done. */
  everySeconds: number;
  /** How long after it was last heard of where it was not done since: it failed, or its process was killed. */
  retrySeconds: number;
};

/**
 * Takes a turn at work that comes around, whichever process does it. Whoever does it calls `renewTurn`
 * meanwhile, more often than `retrySeconds`, and `endTurn` when it is done.
 * @returns Whether it is this caller's: of many at the same time it is one's.
 */
export async function takeTurn(
  db: Kysely<Tables>,
  name: string,
  { everySeconds, retrySeconds }: Rhythm,
): Promise<boolean> {
  const { rows } = await sql`
    insert into upkeep_turns as turn (name) values (${name})
    on conflict (name) do update set taken_at = now()
    where turn.taken_at <= now() - ${retrySeconds} * interval '1 second'
      and (turn.done_at is null
        or turn.done_at <= now() - ${everySeconds} * interval '1 second')
    returning name`.execute(db);
  return rows.length > 0;
}

/** Says that the work goes on: nobody else begins it. */
export async function renewTurn(db: Kysely<Tables>, name: string): Promise<void> {
  await db
    .updateTable('upkeep_turns')
    .set({ taken_at: sql<Date>`now()` })
    .where('name', '=', name)
    .execute();
}

/** Says that the work is done. */
export async function endTurn(db: Kysely<Tables>, name: string): Promise<void> {
  await db
    .updateTable('upkeep_turns')
    .set({ done_at: sql<Date>`now()` })
    .where('name', '=', name)
    .execute();
}
