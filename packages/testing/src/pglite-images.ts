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

const CACHE = join(import.meta.dirname, '../../../node_modules/.cache/test-databases');

/** A new database, as it is before migrations. */
const EMPTY = { state: `empty-${manifest.dependencies['@electric-sql/pglite']}`, migrations: [] };

/** Puts a new embedded database into a new data folder, so that a process started on it need not make one. */
export async function fillDataFolder(dataDir: string): Promise<void> {
  const folder = join(dataDir, 'database');
  await mkdir(folder, { recursive: true });
  const file = await imageFile(EMPTY);
  await promisify(execFile)('tar', ['-xf', file, '-C', folder]);
}

/**
 * Returns the file of an embedded database as migrations leave a new one. To make it takes several times as long as to
 * load it, so it is kept.
 */
export async function imageFile(options: {
  /** Names the state. */
  state: string;
  migrations: readonly MigrateOptions[];
}): Promise<string> {
  const file = join(CACHE, `${options.state}.tar`);
  if (!existsSync(file)) {
    const image = await make(options.migrations);
    // Other processes may do the same. Readers find a whole file or none, and the first one stays: a file that was
    // opened as a blob cannot be read any more once another has its name.
    const part = `${file}.${randomUUID()}`;
    await mkdir(CACHE, { recursive: true });
    await writeFile(part, Buffer.from(await image.arrayBuffer()));
    await link(part, file).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
    await unlink(part);
  }
  return file;
}

async function make(migrations: readonly MigrateOptions[]): Promise<Blob> {
  const isEmpty = migrations.length === 0;
  const image = isEmpty ? undefined : await openAsBlob(await imageFile(EMPTY));
  const lite = await PGlite.create({
    ...(image !== undefined && { loadDataDir: image }),
    extensions: { vector },
  });
  const pool = new pg.Pool(Object.assign({ max: 1 }, createPgConfig(lite)));
  for (const options of migrations) await migrate({ pool }, options);
  if (isEmpty) {
    // Two thirds of the files, which nothing uses, and each process that loads the image would write.
    await pool.query('update pg_database set datistemplate = false');
    await pool.query('drop database template0');
    await pool.query('drop database template1');
  }
  await pool.end();
  const dump = await lite.dumpDataDir('none');
  await lite.close();
  return dump;
}
