import type { Logger } from '@oselya/kit';
import type { FastifyInstance } from 'fastify';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { runSweep, type Sweep } from './sweep.ts';

/** Nothing that is over counts any more, swept or not: this is about room, not about time. */
const INTERVAL_MS = 10 * 60 * 1000;

/**
 * Sweeps out what is kept no longer: when the server begins to listen and every ten minutes from then
 * on, so that each process does its part and none has to. A sweep that fails is for the log; the next
 * one makes up for it.
 * @param sweeps By what they delete.
 */
export function maintain(
  app: FastifyInstance,
  { db, log, sweeps }: { db: Kysely<Tables>; log: Logger; sweeps: Record<string, Sweep> },
): void {
  let timer: NodeJS.Timeout | undefined;
  let current = Promise.resolve();

  async function sweepAll(): Promise<void> {
    for (const [what, sweep] of Object.entries(sweeps)) {
      try {
        const deleted = await runSweep(db, sweep);
        if (deleted > 0) log.info({ what, deleted }, 'deleted what is kept no longer');
      } catch (error) {
        log.warn({ err: error, what }, 'what is kept no longer could not be deleted');
      }
    }
  }

  app.addHook('onListen', (done) => {
    current = sweepAll();
    timer = setInterval(() => {
      current = current.then(sweepAll);
    }, INTERVAL_MS).unref();
    done();
  });
  app.addHook('onClose', async () => {
    clearInterval(timer);
    await current;
  });
}
