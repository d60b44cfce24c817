import { openAsBlob } from 'node:fs';
import { connect } from '../connect.ts';
import type { Database } from '../database.ts';
import type { MigrateOptions } from '../migrate.ts';
import { atEnd } from './at-end.ts';
import { pgliteImage } from './pglite-images.ts';
import { createDatabase } from './postgres-templates.ts';

export { atEnd } from './at-end.ts';
export { cutConnections } from './cut-connections.ts';
export { fillDataFolder } from './pglite-images.ts';

/** A database that is one test file's alone. */
export type TestDatabase<Schema> = Database<Schema> & {
  /** The address for further processes; undefined on PGlite, which no other process can reach. */
  url: string | undefined;
};

/**
 * A database for one test file: PGlite in memory, or a new one on the server of `TEST_DATABASE_URL`.
 * It goes when the file's tests have ended, which fail if they left a connection in use.
 */
export async function openTestDatabase<Schema>(
  migrations: readonly MigrateOptions[] = [],
): Promise<TestDatabase<Schema>> {
  const server = process.env['TEST_DATABASE_URL'];
  const created = server === undefined ? undefined : await createDatabase(server, migrations);
  const image = created === undefined ? await openAsBlob(await pgliteImage(migrations)) : undefined;
  const database = await connect<Schema>({ url: created?.url, image }).catch(
    async (error: unknown) => {
      await created?.drop();
      throw error;
    },
  );
  const close = once(async () => {
    const inUse = database.pool.totalCount - database.pool.idleCount;
    await database.close();
    await created?.drop();
    if (inUse > 0) throw new Error(`The tests left ${inUse} connections checked out of the pool`);
  });
  atEnd(close);
  return { ...database, url: created?.url, close };
}

function once(work: () => Promise<void>): () => Promise<void> {
  let done: Promise<void> | undefined;
  return () => (done ??= work());
}
