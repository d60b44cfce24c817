import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { link, mkdir, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { PGlite } from '@electric-sql/pglite';
import { vector } from '@electric-sql/pglite-pgvector';
import { createPgConfig } from '@electric-sql/pglite/node-postgres';
import pg from 'pg';
import { migrate, type MigrateOptions } from '../migrate.ts';
import { nameOfState } from './migrated-state.ts';

const CACHE = join(import.meta.dirname, '../../../../node_modules/.cache/test-databases');

/**
 * Puts a new embedded database into a new data folder, so that the process that is started on it need not
 * make one.
 */
export async function fillDataFolder(dataDir: string): Promise<void> {
  const folder = join(dataDir, 'database');
  await mkdir(folder, { recursive: true });
  await promisify(execFile)('tar', ['-xf', await pgliteImage([]), '-C', folder]);
}

/**
 * The file of an embedded database as migrations leave a new one. To make it takes several times as long as to
 * load it, so it is kept.
 */
export async function pgliteImage(migrations: readonly MigrateOptions[]): Promise<string> {
  const file = join(CACHE, `${await nameOfState(migrations)}.tar`);
  if (!existsSync(file)) {
    const image = await make(migrations);
    // Others may do the same. Whoever reads finds a whole file or none, and the first one stays: a file that
    // was opened as a blob cannot be read any more once another has its name.
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
  const lite = await PGlite.create({ extensions: { vector } });
  const pool = new pg.Pool(Object.assign({ max: 1 }, createPgConfig(lite)));
  for (const options of migrations) await migrate({ pool }, options);
  // Two thirds of the files, which nobody uses, and each process that loads the image would write.
  await pool.query('update pg_database set datistemplate = false');
  await pool.query('drop database template0');
  await pool.query('drop database template1');
  await pool.end();
  const image = await lite.dumpDataDir('none');
  await lite.close();
  return image;
}
