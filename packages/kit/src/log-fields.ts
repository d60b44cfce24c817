import { AsyncLocalStorage } from 'node:async_hooks';

type Fields = Readonly<Record<string, unknown>>;

const scopes = new AsyncLocalStorage<{ fields: Fields }>();

/**
 * Does a piece of work, and has every line that is logged meanwhile and because of it carry the fields:
 * also lines of parts that know nothing of the work, such as a client that tries again. Fields of work
 * around it are kept, and a line's own win.
 *
 * When the work ends its fields do. A connection that it opened lives longer, and what goes wrong with
 * that later is not the work's.
 */
export function withLogFields<Result>(
  fields: Fields,
  work: () => Promise<Result>,
): Promise<Result> {
  return withOnlyLogFields({ ...scopes.getStore()?.fields, ...fields }, work);
}

/**
 * The same for work that is not part of the work that it is begun in, such as a request that several pieces
 * of work share: no fields of that are kept.
 */
export async function withOnlyLogFields<Result>(
  fields: Fields,
  work: () => Promise<Result>,
): Promise<Result> {
  const scope = { fields };
  try {
    return await scopes.run(scope, work);
  } finally {
    scope.fields = {};
  }
}

/**
 * The fields of the work that a line belongs to, for the logger to add, and for whoever does a part of it
 * elsewhere: a copy of its own.
 */
export function logFields(): Record<string, unknown> {
  return { ...scopes.getStore()?.fields };
}
