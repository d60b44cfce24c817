import {
  DummyDriver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
} from 'kysely';
import pg from 'pg';
import type { Database } from './database.ts';

/**
 * A database that finds nothing and keeps nothing: for an app that only has to describe itself, and for
 * tests of what never asks it.
 */
export function offlineDatabase<Schema>(): Pick<
  Database<Schema>,
  'db' | 'pool' | 'listen' | 'isExclusive'
> {
  const db = new Kysely<Schema>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (own) => new PostgresIntrospector(own),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
  });
  // A pool connects when it is asked first, which nobody does.
  return {
    db,
    pool: new pg.Pool(),
    listen: () => Promise.resolve(() => Promise.resolve()),
    isExclusive: false,
  };
}
