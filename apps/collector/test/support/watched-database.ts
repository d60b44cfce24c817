import type { Kysely, KyselyPlugin, QueryId, QueryResult } from 'kysely';
import type { Tables } from '../../src/tables.ts';

/** Told of each statement, by a text that has its own in it. What they throw, the statement fails with. */
export type Watch = {
  before?: (text: string) => void;
  /** When it has been carried out; the answer waits for it. */
  after?: (text: string, result: QueryResult<unknown>) => Promise<void> | void;
};

/** A database whose statements a test watches, holds up, or has fail. */
export function watchedDatabase(db: Kysely<Tables>, { before, after }: Watch): Kysely<Tables> {
  const texts = new WeakMap<QueryId, string>();
  const plugin: KyselyPlugin = {
    transformQuery({ node, queryId }) {
      const text = JSON.stringify(node);
      texts.set(queryId, text);
      before?.(text);
      return node;
    },
    async transformResult({ queryId, result }) {
      await after?.(texts.get(queryId) ?? '', result);
      return result;
    },
  };
  return db.withPlugin(plugin);
}
