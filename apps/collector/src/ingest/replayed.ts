import type { FastifyReply } from 'fastify';
import type { StoredRaw } from './repository.ts';

/**
 * Says with an answer that its payload had been stored before, under the same idempotency key, and how that one stands
 * by now: the answer itself is the one that it was given at first. Contract 4, Answers.
 * @param stored Nothing is said of one that was stored now.
 */
export function markReplayed(
  reply: FastifyReply,
  { isNew, status }: Pick<StoredRaw, 'isNew' | 'status'>,
): void {
  if (!isNew) reply.headers({ 'idempotent-replayed': 'true', 'raw-status': status });
}
