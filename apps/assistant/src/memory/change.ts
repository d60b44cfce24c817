import type { Transaction } from 'kysely';
import { type Static, Type } from 'typebox';
import { nullable } from '../schema.ts';
import type { Tables } from '../tables.ts';
import type { FactOrigin } from './repository.ts';

/** A fact that was written or removed, and what had stood there before it. */
export const memoryChange = Type.Object({
  category: Type.String(),
  key: Type.String(),
  value: nullable(Type.String({ description: 'Null where it was removed.' })),
  previous: nullable(Type.String({ description: 'Null where there was none.' })),
});

/** See {@link memoryChange}. */
export type MemoryChange = Static<typeof memoryChange>;

/** A change as it is kept to be undone: with where and when the fact came about that it writes over or removes. */
export type NotedChange = MemoryChange & { origin?: FactOrigin };

/**
 * Notes a change in the transaction that makes it, before it is made, so that there is no change without its note.
 * What it throws undoes the change.
 */
export type NoteChange = (trx: Transaction<Tables>, change: NotedChange) => Promise<void>;

/** What came of a change, for people: what the fact says now, or said. */
export function describeChange({ value, previous }: MemoryChange): string {
  if (value === null) return previous ?? '';
  return previous === null ? value : `${value} (before: ${previous})`;
}
