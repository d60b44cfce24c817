import type { TestContext } from 'node:test';
import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../src/tables.ts';

/**
 * Ends every other deletion from a table, the first one included, as the database does that finds a deadlock; until the
 * test is over.
 */
export async function endEveryOtherDeletion(
  t: TestContext,
  db: Kysely<Tables>,
  table: keyof Tables,
): Promise<void> {
  // What a sequence has given is not taken back with what was ended.
  await sql`create sequence deletions`.execute(db);
  await sql`
    create function end_every_other() returns trigger language plpgsql as $$ begin
      if nextval('deletions') % 2 = 1 then raise exception 'ended' using errcode = '40P01'; end if;
      return null;
    end $$`.execute(db);
  await sql`
    create trigger end_every_other before delete on ${sql.table(table)}
    for each statement execute function end_every_other()`.execute(db);
  t.after(async () => {
    await sql`drop function end_every_other cascade`.execute(db);
    await sql`drop sequence deletions`.execute(db);
  });
}
