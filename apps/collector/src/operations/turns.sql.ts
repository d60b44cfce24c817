import { type Kysely, sql } from 'kysely';
import type { Tables } from '../database.ts';

/**
 * Takes a turn at work that comes around every `everySeconds`, whichever process does it.
 * @returns Whether it is this caller's: of many at the same time it is one's.
 */
export async function takeTurn(
  db: Kysely<Tables>,
  name: string,
  everySeconds: number,
): Promise<boolean> {
  const { rows } = await sql`
    insert into upkeep_turns as turn (name) values (${name})
    on conflict (name) do update set taken_at = now()
    where turn.taken_at <= now() - ${everySeconds} * interval '1 second'
    returning name`.execute(db);
  return rows.length > 0;
}
