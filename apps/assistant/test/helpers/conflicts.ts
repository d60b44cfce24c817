import type { TestContext } from 'node:test';
import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../src/tables.ts';

/** Fails the first and every other deletion from a table as a deadlock, until the test ends. */
export async function endEveryOtherDeletion(
  t: TestContext,
  db: Kysely<Tables>,
  table: keyof Tables,
): Promise<void> {
  // A sequence keeps its count after a rollback.
  await sql`create sequence deletions`.execute(db);
  await sql`
    create function end_every_other() returns trigger language plpgsql as $$ begin
      if nextval('deletions') % 2 = 1 then raise exception 'deadlock' using errcode = '40P01'; end if;
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
