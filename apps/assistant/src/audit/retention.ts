import type { Logger } from '@oselya/kit';
import type { FastifyInstance } from 'fastify';
import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';

const HOUR_MS = 60 * 60 * 1000;

/** How many lines one statement deletes, and how many statements one sweep takes at most. */
const BATCH = 1000;
const MAX_BATCHES = 100;

/**
 * Deletes lines of the audit trail that are older than `retentionDays`, in batches that hold no lock
 * for long. Lines that another process is deleting are passed over.
 * @returns How many were deleted.
 */
export async function sweepAudit(db: Kysely<Tables>, retentionDays: number): Promise<number> {
  let deleted = 0;
  for (let batch = 0; batch < MAX_BATCHES; batch += 1) {
    const { numAffectedRows = 0n } = await sql`
      delete from audit_log where id in (
        select id from audit_log where created_at < now() - make_interval(days => ${retentionDays})
        order by created_at limit ${BATCH} for update skip locked
      )`.execute(db);
    deleted += Number(numAffectedRows);
    if (numAffectedRows < BATCH) break;
  }
  return deleted;
}

/**
 * Keeps the audit trail to `retentionDays`: sweeps when the server begins to listen and once an hour
 * from then on, so that each process does its part and none has to. A sweep that fails is for the log;
 * the next one makes up for it.
 */
export function keepAuditShort(
  app: FastifyInstance,
  { db, log, retentionDays }: { db: Kysely<Tables>; log: Logger; retentionDays: number },
): void {
  let timer: NodeJS.Timeout | undefined;
  let current = Promise.resolve();

  async function sweep(): Promise<void> {
    try {
      const deleted = await sweepAudit(db, retentionDays);
      if (deleted > 0) log.info({ deleted }, 'deleted old lines of the audit trail');
    } catch (error) {
      log.warn({ err: error }, 'old lines of the audit trail could not be deleted');
    }
  }

  app.addHook('onListen', (done) => {
    current = sweep();
    timer = setInterval(() => {
      current = current.then(sweep);
    }, HOUR_MS).unref();
    done();
  });
  app.addHook('onClose', async () => {
    clearInterval(timer);
    await current;
  });
}
