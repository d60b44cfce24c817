import { createHash } from 'node:crypto';
import manifest from '../../package.json' with { type: 'json' };
import type { MigrateOptions } from '../migrate.ts';
import { readMigrations } from '../migration-files.ts';

/**
 * Names the state that migrations make of a new database: another name as soon as a file or a variable of
 * them changes, so that what was kept of the state before is not taken for it.
 */
export async function nameOfState(migrations: readonly MigrateOptions[]): Promise<string> {
  const state = createHash('sha256').update(manifest.dependencies['@electric-sql/pglite']);
  for (const { component, folder, variables = {} } of migrations) {
    const files = await readMigrations(folder, variables);
    state.update(JSON.stringify([component, files.map(({ name, sql }) => [name, sql])]));
  }
  return state.digest('hex').slice(0, 16);
}
