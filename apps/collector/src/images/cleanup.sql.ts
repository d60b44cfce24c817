import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';

/** A batch of a scan: the hashes of the pictures that no listing has, and of the last one of all. */
export type Scan = { unreferenced: string[]; last: string };

/** Scans the next pictures after a hash. Undefined where there are no more. */
export async function scanForUnreferenced(
  db: Kysely<Tables>,
  { after, olderThanDays, limit }: { after: string; olderThanDays: number; limit: number },
): Promise<Scan | undefined> {
  const { rows } = await sql<{ sha256: string; is_unreferenced: boolean }>`
    with examined as materialized (
      select sha256, created_at from images where sha256 > ${after} order by sha256 limit ${limit})
    select sha256,
      created_at < now() - ${olderThanDays} * interval '1 day'
        and not exists (select from listing_images where listing_images.sha256 = examined.sha256)
        as is_unreferenced
    from examined order by sha256`.execute(db);
  const last = rows.at(-1)?.sha256;
  if (last === undefined) return undefined;
  return {
    last,
    unreferenced: rows.filter((row) => row.is_unreferenced).map(({ sha256 }) => sha256),
  };
}

/**
 * Removes the row of a picture that no listing shows, and in the same transaction its bytes. One without a
 * row gets one for that time, so that whoever records the picture waits. A connection is held meanwhile, for
 * some seconds where the store is slow; the embedded database answers nobody else then.
 * @param removeBytes What it throws leaves the row where it is.
 * @returns Whether it did: not where a listing shows the picture by now, or is about to.
 */
export function removeUnreferenced(
  db: Kysely<Tables>,
  sha256: string,
  removeBytes: () => Promise<void>,
): Promise<boolean> {
  return db.transaction().execute(async (trx) => {
    await trx
      .insertInto('images')
      .values({ sha256, media_type: '', width: 0, height: 0, bytes: 0 })
      .onConflict((conflict) => conflict.doNothing())
      .execute();
    // A reference that is not committed yet holds a lock on the row; one that is, the next statement sees.
    const locked = await trx
      .selectFrom('images')
      .select('sha256')
      .where('sha256', '=', sha256)
      .forUpdate()
      .skipLocked()
      .executeTakeFirst();
    if (locked === undefined) return false;
    const deleted = await trx
      .deleteFrom('images')
      .where('sha256', '=', sha256)
      .where((eb) =>
        eb.not(
          eb.exists(eb.selectFrom('listing_images').select('id').where('sha256', '=', sha256)),
        ),
      )
      .executeTakeFirst();
    if (deleted.numDeletedRows === 0n) return false;
    await removeBytes();
    return true;
  });
}
