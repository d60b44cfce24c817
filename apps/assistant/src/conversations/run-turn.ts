import { setTimeout as sleep } from 'node:timers/promises';
import { runUnderLease, isDatabaseOutage, LeaseLostError } from '@oselya/db';
import { commonProblem, type Logger, ProblemError } from '@oselya/kit';
import { type ModelClient, ModelError } from '@oselya/model';
import type { User } from '../access/permissions.ts';
import { type AgentLimits, runAgent } from './agent/agent.ts';
import { loadRequest, type RequestDeps } from './agent/context.ts';
import { summarizeEarlierMessages } from './agent/summaries.ts';
import type { StoredToolCall } from './agent/request.ts';
import { problem } from '../errors.ts';
import type { RecordChange } from '../memory/facts.ts';
import type { Profile } from '../profiles/profile-file.ts';
import { createFailedResult, createToolBox } from './tools/tools.ts';
import { type PartialAnswer, finishTurn, type TurnOutcome } from './end-turn.ts';
import type { EventLog, RunningTurn } from './event-log.ts';
import type { ChatMetrics } from './metrics.ts';
import { createTurnSteps, type TurnSteps } from './step-recorder.ts';
import { LEASE_MS } from './turns.ts';

/** Delay between attempts to store the end of a turn during a database outage. */
const RETRY_DELAY_MS = 1000;

/** Maximum duration of a summary: half of the answer's time limit, but at most 30 s. */
const SUMMARY_TIME_SHARE = 0.5;
const MAX_SUMMARY_MS = 30_000;

type TurnDeps = RequestDeps & {
  events: EventLog;
  model: Pick<ModelClient, 'streamChat'>;
  limits: AgentLimits;
  metrics: ChatMetrics;
  log: Pick<Logger, 'warn' | 'error'>;
};

type TurnRequest = {
  profile: Profile;
  /** The user who asked the question. */
  user: User;
  /**
   * Returns the user with current permissions. Throws if the user has signed out, cannot be resolved, or may no longer
   * use the profile.
   */
  currentUser: () => Promise<User>;
  requestId: string;
};

/**
 * Runs a turn under its lease: runs the agent, appends events, and stores the answer. Never throws. Holds no database
 * connection while it waits for the model or the collector.
 * @returns The outcome; undefined if the turn was lost, or if its end could not be stored. The reaper aborts such a
 *   turn, unless the turn has ended or was deleted.
 */
export async function runTurn(
  deps: TurnDeps,
  turn: RunningTurn,
  request: TurnRequest,
): Promise<TurnOutcome | undefined> {
  const { events, metrics, log } = deps;
  const startedAt = performance.now();
  const lease = {
    durationMs: LEASE_MS,
    renew: () => events.renew(turn),
    release: () => Promise.resolve(),
  };
  let outcome: TurnOutcome | undefined;
  try {
    outcome = await runUnderLease(lease, (lostSignal) =>
      runToEnd(deps, turn, { ...request, lostSignal }),
    );
  } catch (error) {
    log.error({ err: error, turn_id: turn.turnId }, 'the end of a turn could not be stored');
  }
  if (outcome === undefined) metrics.countTurn('lost');
  else metrics.countTurn(outcome.status, performance.now() - startedAt);
  return outcome;
}

async function runToEnd(
  deps: TurnDeps,
  turn: RunningTurn,
  { lostSignal, ...request }: TurnRequest & { lostSignal: AbortSignal },
): Promise<TurnOutcome | undefined> {
  const { db, limits, log } = deps;
  const timeoutSignal = AbortSignal.timeout(limits.ms);
  const answer = { content: '', toolCalls: [] as StoredToolCall[] };
  let outcome: TurnOutcome | undefined;
  try {
    const signal = AbortSignal.any([turn.signal, timeoutSignal, lostSignal]);
    await writeAnswer(answer, deps, turn, { ...request, signal });
    outcome = { status: 'completed' };
  } catch (error) {
    const stopReason: unknown = lostSignal.aborted ? lostSignal.reason : turn.signal.reason;
    const isTimeout = timeoutSignal.aborted && stopReason === undefined;
    outcome = toOutcome(isTimeout ? problem('answer_too_slow') : error, stopReason);
    if (outcome?.status === 'failed') {
      const { status, code, cause } = outcome.problem;
      const level = status >= 500 ? 'error' : 'warn';
      log[level]({ err: cause, code, turn_id: turn.turnId }, 'a turn failed');
    }
  }
  if (outcome === undefined) return undefined;
  const turnEnd = { outcome, answer, requestId: request.requestId };
  for (;;) {
    try {
      return (await finishTurn(db, turn, turnEnd)) ? outcome : undefined;
    } catch (error) {
      if (!isDatabaseOutage(error) || lostSignal.aborted || turn.isClosing) throw error;
      await sleep(RETRY_DELAY_MS);
    }
  }
}

/** Returns the outcome of a turn that ended with an error; undefined if this process has lost the turn. */
function toOutcome(error: unknown, stopReason: unknown): TurnOutcome | undefined {
  if (stopReason === 'lost' || stopReason instanceof LeaseLostError) return undefined;
  if (stopReason === 'cancelled') return { status: 'cancelled' };
  if (stopReason === 'closing') return { status: 'cut' };
  if (stopReason === 'signed-out') return { status: 'failed', problem: problem('not_signed_in') };
  if (error instanceof ProblemError) return { status: 'failed', problem: error };
  if (error instanceof ModelError) {
    const code = error.retryable ? 'model_unavailable' : 'model_failed';
    return { status: 'failed', problem: problem(code, { cause: error }) };
  }
  const code = isDatabaseOutage(error) ? 'unavailable' : 'internal_error';
  return { status: 'failed', problem: commonProblem(code, { cause: error }) };
}

/** Runs the agent and adds its text and tool calls to `answer` as they arrive. */
async function writeAnswer(
  answer: PartialAnswer & { toolCalls: StoredToolCall[] },
  deps: TurnDeps,
  turn: RunningTurn,
  { profile, user, currentUser, signal }: TurnRequest & { signal: AbortSignal },
): Promise<void> {
  const { model, limits, log } = deps;
  const { sessionId } = turn;
  const steps = createTurnSteps(deps.db, turn);
  const scope = { userId: user.id };
  const requestOptions = { sessionId, scope, owner: user, profile, isAnswering: true };
  const { request, tools } = await loadWithSummary(deps, steps, {
    loadAgentRequest: () => loadRequest(deps, requestOptions),
    modelName: profile.model,
    signal,
  });
  const collector = deps.services.collector.forUser(user.id);
  const services = { ...deps.services, collector };
  const toolBox = createToolBox({ tools, services, sessionId, currentUser, log });
  await runAgent({
    model,
    request,
    limits,
    contextTokens: deps.contextTokens,
    signal,
    onText(text) {
      signal.throwIfAborted();
      answer.content += text;
      turn.append({ type: 'message.delta', text });
    },
    async runTool(call, { round, denial, ...context }) {
      await steps.startTool(call, toolBox.getTitle(call));
      const recordChange: RecordChange = (trx, change) => steps.storeChange(trx, call, change);
      const result =
        denial === undefined
          ? await toolBox.run(call, { ...context, signal, recordChange })
          : createFailedResult(denial);
      const { status, laterOutput } = result;
      answer.toolCalls.push({ ...call, status, output: laterOutput, round });
      deps.metrics.countTool(call.name, status);
      await steps.finishTool(call, result);
      return result;
    },
  });
  signal.throwIfAborted();
}

/**
 * Loads the model request. Summarizes the earlier messages first if the conversation does not fit. If the summary
 * fails, the request omits the oldest messages.
 */
async function loadWithSummary(
  { db, model, contextTokens, limits, metrics, log }: TurnDeps,
  steps: TurnSteps,
  {
    loadAgentRequest,
    modelName,
    signal,
  }: {
    loadAgentRequest: () => ReturnType<typeof loadRequest>;
    modelName: string;
    signal: AbortSignal;
  },
): ReturnType<typeof loadRequest> {
  const loadedRequest = await loadAgentRequest();
  const { earlierMessages, omittedCount } = loadedRequest;
  if (earlierMessages === undefined) return loadedRequest;
  const timeoutSignal = AbortSignal.timeout(
    Math.min(limits.ms * SUMMARY_TIME_SHARE, MAX_SUMMARY_MS),
  );
  const options = { modelName, contextTokens, signal: AbortSignal.any([signal, timeoutSignal]) };
  await steps.recordSummary(async () => {
    try {
      const summary = await summarizeEarlierMessages({ db, model }, earlierMessages, options);
      metrics.countSummary('done');
      const detail =
        summary === undefined
          ? { note: 'another process has just summarized them' }
          : { messages: summary.messageCount, summary: summary.text };
      return { status: 'done', detail };
    } catch (error) {
      signal.throwIfAborted();
      metrics.countSummary('failed');
      log.warn(
        { err: error, session_id: earlierMessages.sessionId },
        'a conversation was not summarized',
      );
      const reason = error instanceof ModelError ? error.message : 'it failed; see the log';
      return { status: 'failed', detail: { error: reason, messages_left_out: omittedCount } };
    }
  });
  return loadAgentRequest();
}
