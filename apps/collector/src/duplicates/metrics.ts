import type { Kysely } from 'kysely';
import { Gauge, type Registry } from 'prom-client';
import { createMeasure } from '../async/measure.ts';
import type { Tables } from '../tables.ts';
import { countMarks } from './marks.sql.ts';

/**
 * The gauge of listings that are still to be looked at, read from the database when it is asked for: every
 * process shows the same.
 * @param onError Told where the database does not answer: the other metrics are served all the same.
 */
export function registerDuplicateMetrics(
  registry: Registry,
  { db, onError }: { db: Kysely<Tables>; onError: (error: unknown) => void },
): void {
  const marks = new Gauge({
    name: 'collector_duplicate_marks',
    help: 'Changes whose duplicates are still to be looked for: "waiting", or "retried" after a failure; at most 100000 are counted.',
    labelNames: ['state'],
    registers: [registry],
    collect: createMeasure({
      read: () => countMarks(db),
      show({ waiting, retried }) {
        marks.set({ state: 'waiting' }, waiting);
        marks.set({ state: 'retried' }, retried);
      },
      forget: () => marks.reset(),
      onError,
    }),
  });
}
