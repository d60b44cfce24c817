import type { Server } from '@oselya/kit';
import type { ModelClient } from '@oselya/model';
import { Type } from 'typebox';
import { problemAnswers } from '../errors.ts';
import { choice, nullable } from '../schemas.ts';
import type { ReadQueue } from '../queue/figures.ts';

const queueAnswer = Type.Object(
  {
    counts: Type.Object(
      {
        pending: Type.Integer(),
        processing: Type.Integer(),
        completed: nullable(Type.Integer()),
        invalid: nullable(Type.Integer()),
        failed: nullable(Type.Integer()),
      },
      {
        description:
          'Payloads by status, of one moment. The exception is a status in which more than 100,000 have ended: those are ' +
          'counted in the background, and `null` until the process that answers has done so for the first time.',
      },
    ),
    ended_age_seconds: nullable(
      Type.Number({
        description:
          'How old the oldest of the counts `completed`, `invalid` and `failed` is; `null` while one is missing. Of ' +
          'counts made in the background up to a minute, and one or two seconds for each 100,000 counted.',
      }),
    ),
    oldest_pending_seconds: nullable(
      Type.Number({
        description:
          'How long the oldest pending one has waited since it came, or was put back; `null` while none does. Those that ' +
          'were put back go before newer ones of their source, whose wait is seen after them.',
      }),
    ),
    finished_per_minute: Type.Number({ description: 'Over the last five minutes.' }),
    breaker: choice(['closed', 'open', 'half-open'], {
      description: "This process's; while it is open nothing is taken off the queue here.",
    }),
  },
  {
    description: 'The queue of all processes.',
    examples: [
      {
        counts: { pending: 12, processing: 4, completed: 90_210, invalid: 310, failed: 2 },
        ended_age_seconds: 0.1,
        oldest_pending_seconds: 3.2,
        finished_per_minute: 118.4,
        breaker: 'closed',
      },
    ],
  },
);

/** `GET /admin/queue`. Contract 4, Operations. */
export function queueRoutes(
  app: Server,
  { readQueue, model }: { readQueue: ReadQueue; model: Pick<ModelClient, 'breaker'> },
): void {
  app.get(
    '/admin/queue',
    {
      config: { scope: 'admin' },
      schema: {
        tags: ['operations'],
        summary: 'How the queue stands',
        response: { 200: queueAnswer, ...problemAnswers(401, 403, 503) },
      },
    },
    async () => {
      // Whoever has just put payloads back wants to see them.
      const figures = await readQueue({ maxAgeMs: 0 });
      return {
        counts: figures.counts,
        ended_age_seconds: figures.endedAgeSeconds,
        oldest_pending_seconds: figures.oldestPendingSeconds,
        finished_per_minute: figures.finishedPerMinute,
        breaker: model.breaker.state,
      };
    },
  );
}
