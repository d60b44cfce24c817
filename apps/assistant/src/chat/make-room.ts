import { ModelError } from '@oselya/model';
import type { loadRequest } from '../agent/context.ts';
import { summarizeEarlier } from '../agent/summaries.ts';
import type { createPlan } from './plan.ts';
import type { TurnDeps } from './run-turn.ts';

type Loaded = Awaited<ReturnType<typeof loadRequest>>;

/** What of an answer's time its summary may take, and how long at the most: whoever asked is waiting. */
export const summaryTime = { share: 0.5, mostMs: 30_000 };

/**
 * What the model is sent for an answer. Where the conversation has no room in it, its earlier messages are
 * summarized first, as a step of the plan; where that fails, the answer goes on without the oldest of them, which
 * stay stored and are summarized the next time.
 * @param load Makes the request of what is stored now.
 * @throws What loading throws; the signal's reason.
 */
export async function makeRoom(
  { db, model, contextTokens, limits, metrics, log }: TurnDeps,
  plan: Pick<ReturnType<typeof createPlan>, 'during'>,
  {
    load,
    modelName,
    signal,
  }: { load: () => Promise<Loaded>; modelName: string; signal: AbortSignal },
): Promise<Loaded> {
  const loaded = await load();
  const { earlier, leftOut } = loaded;
  if (earlier === undefined) return loaded;
  const late = AbortSignal.timeout(Math.min(limits.ms * summaryTime.share, summaryTime.mostMs));
  const bounds = { modelName, contextTokens, signal: AbortSignal.any([signal, late]) };
  await plan.during({ kind: 'summary', title: 'Summarizing earlier messages' }, async () => {
    try {
      const made = await summarizeEarlier({ db, model }, earlier, bounds);
      metrics.countSummary('done');
      if (made === undefined) {
        return { status: 'done', detail: { note: 'another process has just summarized them' } };
      }
      return { status: 'done', detail: { messages: made.messageCount, summary: made.text } };
    } catch (error) {
      signal.throwIfAborted();
      metrics.countSummary('failed');
      log.warn({ err: error, session_id: earlier.sessionId }, 'a conversation was not summarized');
      const reason = error instanceof ModelError ? error.message : 'it failed; see the log';
      return { status: 'failed', detail: { error: reason, messages_left_out: leftOut } };
    }
  });
  return load();
}
