import { chmodSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { PGlite } from '@electric-sql/pglite';
import { createPgConfig } from '@electric-sql/pglite/node-postgres';
import { vector } from '@electric-sql/pglite-pgvector';
import pg from 'pg';
import type { Engine } from './database.ts';
import { DurableFiles, durableParams } from './durable-files.ts';
import { DatabaseError } from './errors.ts';
import { lockFolder } from './lock.ts';
import { types } from './types.ts';

/**
 * Opens the embedded database: PostgreSQL compiled to WebAssembly, in this process, spoken to by
 * node-postgres like any other server.
 * @param dataDir Where its files go; without one the database is in memory and ends with the process.
 * @param image What one in memory begins with, as PGlite dumps it.
 * @throws DatabaseError FOLDER_LOCKED or FOLDER_UNUSABLE, as {@link lockFolder} says.
 */
export async function openPglite(dataDir?: string, image?: Blob): Promise<Engine> {
  const lock = dataDir === undefined ? undefined : lockFolder(dataDir);
  try {
    return await open(dataDir, image, () => lock?.release());
  } catch (error) {
    lock?.release();
    throw error;
  }
}

async function open(
  dataDir: string | undefined,
  image: Blob | undefined,
  release: () => void,
): Promise<Engine> {
  const folder = dataDir === undefined ? undefined : join(dataDir, 'database');
  if (folder !== undefined) {
    mkdirSync(folder, { recursive: true });
    // PGlite writes files that everybody may read, among them encrypted tokens and people's phones.
    chmodSync(folder, 0o700);
  }
  const lite = await create(folder, image);

  // A client that failed is thrown away by the pool, and its successor speaks to the same backend: it
  // needs a connection object of its own; a transaction that was left open has to be ended first, and
  // the names of prepared statements given back, since the successor will prepare them again.
  class PgliteClient extends pg.Client {
    constructor(config?: pg.ClientConfig) {
      super(Object.assign({}, config, { connection: createPgConfig(lite).connection }));
    }
  }
  const pool = new pg.Pool({
    max: 1,
    idleTimeoutMillis: 0,
    types,
    Client: PgliteClient,
    onConnect: resetSession,
  });
  pool.on('error', () => undefined);

  return {
    pool,
    async listen(channel, notify) {
      await pool.query(`listen ${pg.escapeIdentifier(channel)}`);
      const stop = lite.onNotification((name, payload) => {
        if (name === channel) notify(payload);
      });
      return () => Promise.resolve(stop());
    },
    async close() {
      await pool.end();
      await lite.close();
      release();
    },
  };
}

async function resetSession(client: pg.ClientBase): Promise<void> {
  await client.query('rollback; deallocate all');
}

async function create(folder: string | undefined, image: Blob | undefined): Promise<PGlite> {
  try {
    return await PGlite.create({
      ...(folder !== undefined && {
        fs: new DurableFiles(folder),
        startParams: durableParams(PGlite.defaultStartParams),
      }),
      ...(image !== undefined && { loadDataDir: image }),
      extensions: { vector },
    });
  } catch (error) {
    // What a WebAssembly program says when it cannot go on is of no help to anybody but its authors.
    throw new DatabaseError(
      'DATABASE_UNSUITABLE',
      `The embedded database${folder === undefined ? '' : ` in ${folder}`} cannot be opened, its files are damaged: restore a copy of them, or delete the data folder to start afresh`,
      { cause: error },
    );
  }
}
