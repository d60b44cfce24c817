import { DatabaseError } from '@oselya/db';
import type { Kysely } from 'kysely';
import type { Tables } from '../../src/tables.ts';
import { watchedDatabase } from './watched-database.ts';

/** Statements that do not come through. */
type Loss = {
  /** A part of the statement's text. */
  statement: string;
  /** Whether the server does not get it, or carries it out and its answer is lost. */
  when: 'before' | 'after';
  /** How many of them. */
  times: number;
};

/** A database that loses its connection over some statements, as often as it is told. */
export function lossyDatabase(db: Kysely<Tables>) {
  const losses: Loss[] = [];
  const lose = (when: Loss['when']) => (text: string) => {
    const loss = losses.find(
      (one) => one.when === when && one.times > 0 && text.includes(one.statement),
    );
    if (loss === undefined) return;
    loss.times -= 1;
    throw outage();
  };
  return {
    db: watchedDatabase(db, { before: lose('before'), after: lose('after') }),
    lose: (loss: Loss) => void losses.push(loss),
    /** Whether everything has been lost that was to be. */
    isOver: () => losses.every(({ times }) => times === 0),
  };
}

export function outage(): DatabaseError {
  return new DatabaseError('DATABASE_UNREACHABLE', 'The database does not answer (a test)');
}
