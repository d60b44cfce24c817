import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, rename, writeFile } from 'node:fs/promises';
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
    // Another process may do the same: whoever reads finds a whole file or none.
    const part = `${file}.${process.pid}`;
    await mkdir(CACHE, { recursive: true });
    await writeFile(part, Buffer.from(await image.arrayBuffer()));
    await rename(part, file);
  }
  return file;
}

async function make(migrations: readonly MigrateOptions[]): Promise<Blob> {
  const lite = await PGlite.create({ extensions: { vector } });
  const pool = new pg.Pool(Object.assign({ max: 1 }, createPgConfig(lite)));
  for (const options of migrations) await migrate({ pool }, options);
  await pool.end();
  const image = await lite.dumpDataDir('none');
  await lite.close();
  return image;
}
