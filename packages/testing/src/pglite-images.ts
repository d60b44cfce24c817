import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync, openAsBlob } from 'node:fs';
import { link, mkdir, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { PGlite } from '@electric-sql/pglite';
import { vector } from '@electric-sql/pglite-pgvector';
import { createPgConfig } from '@electric-sql/pglite/node-postgres';
import { migrate, type MigrateOptions } from '@oselya/db';
import pg from 'pg';
import manifest from '../package.json' with { type: 'json' };

const CACHE_FOLDER = join(import.meta.dirname, '../../../node_modules/.cache/test-databases');

/** Options of `initdb`. Clearing memory and log of the default sizes would take half the time to open a database. */
const SMALL_DATABASE = ['--wal-segsize=1', '--set=shared_buffers=16MB'];

/** State of a database without migrations, from which other images are created. */
export const EMPTY_DATABASE = {
  state: ['empty', manifest.dependencies['@electric-sql/pglite'], ...SMALL_DATABASE].join(' '),
  migrations: [],
};

/** Creates an embedded database in a new data folder. Copies a cached one, which is faster than initializing it. */
export async function fillDataFolder(dataDir: string): Promise<void> {
  const folder = join(dataDir, 'database');
  await mkdir(folder, { recursive: true });
  const file = await createImageFile(EMPTY_DATABASE);
  await promisify(execFile)('tar', ['-xf', file, '-C', folder]);
}

/**
 * Returns a file with the image of a migrated embedded database. The file is cached, because loading it is several
 * times faster than running the migrations.
 */
export async function createImageFile(options: {
  state: string;
  migrations: readonly MigrateOptions[];
}): Promise<string> {
  const file = join(CACHE_FOLDER, `${options.state}.tar`);
  if (!existsSync(file)) {
    const image = await createImage(options.migrations);
    // Concurrent processes may create the same file. The link publishes only a complete file and keeps an existing one,
    // because a blob cannot be read after its file is replaced.
    const partialFile = `${file}.${randomUUID()}`;
    await mkdir(CACHE_FOLDER, { recursive: true });
    await writeFile(partialFile, Buffer.from(await image.arrayBuffer()));
    await link(partialFile, file).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
    await unlink(partialFile);
  }
  return file;
}

async function createImage(migrations: readonly MigrateOptions[]): Promise<Blob> {
  const isEmpty = migrations.length === 0;
  const image = isEmpty ? undefined : await openAsBlob(await createImageFile(EMPTY_DATABASE));
  const pglite = await PGlite.create({
    ...(image !== undefined && { loadDataDir: image }),
    initDbStartParams: SMALL_DATABASE,
    extensions: { vector },
  });
  const pool = new pg.Pool(Object.assign({ max: 1 }, createPgConfig(pglite)));
  for (const options of migrations) await migrate({ pool }, options);
  if (isEmpty) {
    // Drop the unused template databases, because they are two thirds of the files and slow down loading.
    await pool.query('update pg_database set datistemplate = false');
    await pool.query('drop database template0');
    await pool.query('drop database template1');
  }
  await pool.end();
  const dump = await pglite.dumpDataDir('none');
  await pglite.close();
  return dump;
}
