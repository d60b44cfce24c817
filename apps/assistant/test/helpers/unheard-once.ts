import { DatabaseError } from '@oselya/db';
import type { Kysely, Transaction } from 'kysely';
import type { Tables } from '../../src/tables.ts';

/** As a database whose first transaction is carried out, and not answered. */
export function unheardOnce(db: Kysely<Tables>): Kysely<Tables> {
  let isHeard = false;
  const transaction = () => ({
    async execute(work: (trx: Transaction<Tables>) => Promise<unknown>) {
      const result = await db.transaction().execute(work);
      if (isHeard) return result;
      isHeard = true;
      throw new DatabaseError('DATABASE_UNREACHABLE', 'The connection broke (a test)');
    },
  });
  return new Proxy(db, {
    get(target, name) {
      if (name === 'transaction') return transaction;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}
