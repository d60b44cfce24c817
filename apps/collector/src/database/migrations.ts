import { join } from 'node:path';
import type { MigrateOptions } from '@oselya/db';
import type { Config } from '../config.ts';

/** What `migrate` needs for the collector's tables. */
export function migrations(config: Pick<Config, 'EMBEDDING_DIMENSIONS'>): MigrateOptions {
  return {
    component: 'collector',
    folder: join(import.meta.dirname, '../../migrations'),
    variables: { embedding_dimensions: config.EMBEDDING_DIMENSIONS },
  };
}
