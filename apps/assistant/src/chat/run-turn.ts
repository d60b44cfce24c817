import type { Logger } from '@oselya/kit';
import type { ModelClient } from '@oselya/model';
import type { User } from '../access/permissions.ts';
import { type AgentLimits, runAgent } from '../agent/agent.ts';
import { loadRequest, type RequestDeps } from '../agent/context.ts';
import type { UsedTool } from '../agent/request.ts';
import type { Profile } from '../profiles/profile-file.ts';
import { createToolBox } from '../tools/tools.ts';
import { finishTurn } from './finish-turn.ts';
import { makeRoom } from './make-room.ts';
import type { ChatMetrics } from './metrics.ts';
import { outcomeOf, type Outcome } from './outcome.ts';
import { createPlan } from './plan.ts';
import type { Turn } from './turn.ts';

/** What running turns needs. */
export type TurnDeps = RequestDeps & {
  model: Pick<ModelClient, 'streamChat'>;
  limits: AgentLimits;
  metrics: ChatMetrics;
  sender: string;
  log: Pick<Logger, 'warn' | 'error'>;
};

/** For whom a turn is run. */
export type Asker = {
  /** As they were when they asked: what they may see goes along with the question. */
  user: User;
  /** As of this moment. Throws as `LiveUser.current` does, and where the profile is not for them any more. */
  currentUser: () => Promise<User>;
  requestId: string;
};

/**
 * Runs a turn to its end: asks the agent, tells what happens, and stores the answer. No connection to the
 * database is held while the model or a tool is waited for. It never throws.
 * @returns How it ended; nothing where it was not this process's to end any more.
 */
export async function runTurn(
  deps: TurnDeps,
  turn: Turn,
  whose: { profile: Profile; asker: Asker },
): Promise<Outcome | undefined> {
  const began = performance.now();
  const outcome = await runToEnd(deps, turn, whose);
  if (outcome === undefined) deps.metrics.countTurn('lost');
  else deps.metrics.countTurn(outcome.status, performance.now() - began);
  return outcome;
}

async function runToEnd(
  deps: TurnDeps,
  turn: Turn,
  { profile, asker }: { profile: Profile; asker: Asker },
): Promise<Outcome | undefined> {
  const { db, limits, sender, log } = deps;
  const late = AbortSignal.timeout(limits.ms);
  const answer = { content: '', used: [] as UsedTool[] };
  let outcome: Outcome | undefined;
  try {
    const signal = AbortSignal.any([turn.signal, late]);
    await answerInto(answer, deps, turn, { profile, asker, signal });
    outcome = { status: 'completed' };
  } catch (error) {
    outcome = outcomeOf(error, { stopReason: turn.stopReason, isLate: late.aborted });
    if (outcome?.status === 'failed') {
      const { problem } = outcome;
      const level = problem.status >= 500 ? 'error' : 'warn';
      log[level]({ err: problem.cause, code: problem.code, turn_id: turn.turnId }, 'a turn failed');
    }
  }
  if (outcome === undefined) return undefined;
  try {
    const { requestId } = asker;
    return (await finishTurn(db, turn, { outcome, answer, sender, requestId }))
      ? outcome
      : undefined;
  } catch (error) {
    log.error({ err: error, turn_id: turn.turnId }, 'the end of a turn could not be stored');
    return undefined;
  }
}

/** Has the agent answer; what there is of the answer is in `answer` at any time. */
async function answerInto(
  answer: { content: string; used: UsedTool[] },
  deps: TurnDeps,
  turn: Turn,
  { profile, asker, signal }: { profile: Profile; asker: Asker; signal: AbortSignal },
): Promise<void> {
  const { model, limits, log } = deps;
  const { sessionId } = turn;
  const { user: owner, currentUser } = asker;
  const reach = { userId: owner.id };
  const plan = createPlan(deps, turn, signal);
  const { request, tools } = await makeRoom(deps, plan, {
    load: () => loadRequest(deps, { sessionId, reach, owner, profile, isAnswering: true }),
    modelName: profile.model,
    signal,
  });
  const box = createToolBox({ tools, services: deps.services, sessionId, currentUser, log });
  const events = runAgent({
    model,
    request,
    limits,
    contextTokens: deps.contextTokens,
    signal,
    runTool: (call, seen) =>
      box.run(call, {
        ...seen,
        signal,
        noteChange: (trx, change) => plan.noteChange(trx, call, change),
      }),
  });
  for await (const event of events) {
    if (event.type === 'text') {
      signal.throwIfAborted();
      answer.content += event.text;
      turn.add({ type: 'message.delta', text: event.text });
    } else if (event.type === 'tool.started') {
      await plan.startTool(event.call, box.title(event.call));
    } else {
      answer.used.push(event.used);
      deps.metrics.countTool(event.call.name, event.result.status);
      await plan.finishTool(event.call, event.result);
    }
  }
  signal.throwIfAborted();
}
