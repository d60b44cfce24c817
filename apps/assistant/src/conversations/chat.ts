import { setTimeout as sleep } from 'node:timers/promises';
import { commonProblem, type Logger, onDrain, type Server } from '@oselya/kit';
import type { ModelClient } from '@oselya/model';
import type { User } from '../access/permissions.ts';
import type { AgentLimits } from './agent/agent.ts';
import { generateTitle } from './agent/title.ts';
import type { RequestDeps } from './agent/context.ts';
import { problem } from '../errors.ts';
import type { Profile } from '../profiles/profile-file.ts';
import type { Profiles } from '../profiles/profiles.ts';
import { createTurnReaper } from './end-turn.ts';
import type { EventLog } from './event-log.ts';
import type { EventCursor } from './listener.ts';
import type { LiveUser } from './live-users.ts';
import type { ChatMetrics } from './metrics.ts';
import { runTurn } from './run-turn.ts';
import { presentMessage } from './schemas.ts';
import { setNameIfEmpty, requireSession } from './session-rows.ts';
import { undoStep } from './steps.ts';
import {
  type StartedTurn,
  beginTurn,
  findLatestTurn,
  requestCancel,
  retryTurn,
  type TurnKey,
} from './turns.ts';

/** Maximum time that a shutdown waits for running turns before it aborts them. */
const SHUTDOWN_MS = 20_000;

const REAP_INTERVAL_MS = 5000;

const TITLE_TIMEOUT_MS = 30_000;

/** The chat service. See {@link createChat}. */
export type ChatService = ReturnType<typeof createChat>;

/** A message that a user sends to the agent. See `beginTurn` for `clientMessageId`. */
type UserMessage = { sessionId: string; text: string; clientMessageId?: string | undefined };

/** Connection that sent a message. The message's turn uses it until the turn ends. */
export type MessageSender = {
  requestId: string;
  /** Called before the first event of the turn. */
  onBegin: (key: TurnKey) => void;
  /** Watches the auth session until the returned user is released. */
  watchUser: (onSignedOut: () => void) => LiveUser;
};

/**
 * Creates the chat service, which accepts messages and runs one turn at a time in each session. Contract 3, WebSocket.
 */
export function createChat({
  model,
  profiles,
  log,
  limits,
  metrics,
  events,
  shutdownMs = SHUTDOWN_MS,
  ...requestDeps
}: RequestDeps & {
  events: EventLog;
  model: Pick<ModelClient, 'streamChat'>;
  profiles: Profiles;
  log: Logger;
  limits: AgentLimits;
  metrics: ChatMetrics;
  shutdownMs?: number;
}) {
  const { db } = requestDeps;
  const reaper = createTurnReaper({ events, log, onAbort: () => metrics.countTurn('cut') });
  const pendingWork = new Set<Promise<unknown>>();
  const shutdownController = new AbortController();
  let isShutdownOverdue = false;

  /** Runs work that a shutdown waits for. */
  async function track<Result>(work: () => Promise<Result>): Promise<Result> {
    const completion = work();
    pendingWork.add(completion);
    try {
      return await completion;
    } finally {
      pendingWork.delete(completion);
    }
  }

  async function waitForRunning(): Promise<void> {
    while (pendingWork.size > 0) await Promise.allSettled(pendingWork);
  }

  type TurnSetup = { profile: Profile; isNamed: boolean; user: User; sender: MessageSender };

  /** Checks that the user owns the session and may use its profile, and returns the turn's setup. */
  async function prepareTurn(
    user: User,
    sessionId: string,
    sender: MessageSender,
  ): Promise<TurnSetup> {
    const session = await requireSession(db, { sessionId, scope: { userId: user.id } });
    if (shutdownController.signal.aborted) throw commonProblem('unavailable');
    await reaper.abortStaleTurns({ sessionId });
    // A session of an older system has no profile, and a profile may have been removed: then the default applies.
    const profileId = profiles.find(session.profileId)?.profile_id;
    return {
      profile: profiles.choose(user, profileId),
      isNamed: session.name !== '',
      user,
      sender,
    };
  }

  function startTurn(
    { key, question, replacedAnswerId: replaces }: StartedTurn,
    turnSetup: TurnSetup,
  ): void {
    const { profile, isNamed, user, sender } = turnSetup;
    const turn = events.start(key);
    sender.onBegin(key);
    if (isShutdownOverdue) turn.stop('closing');
    turn.append({
      type: 'message.started',
      message: presentMessage(question),
      ...(replaces !== undefined && { replaces }),
    });
    const liveUser = sender.watchUser(() => turn.stop('signed-out'));
    async function currentUser(): Promise<User> {
      const resolvedUser = await liveUser.current();
      profiles.checkUse(resolvedUser, profile);
      return resolvedUser;
    }
    void track(async () => {
      const deps = { ...requestDeps, events, model, limits, metrics, log };
      const request = { profile, user, currentUser, requestId: sender.requestId };
      const outcome = await runTurn(deps, turn, request);
      liveUser.release();
      events.finish(turn);
      if (outcome?.status !== 'completed' || isNamed) return;
      await nameSession(turn.sessionId, question.content, profile.model);
    });
  }

  /** Names a session with a title that the model generates from a question whose answer is complete. */
  async function nameSession(sessionId: string, text: string, modelName: string): Promise<void> {
    try {
      const signal = AbortSignal.any([
        shutdownController.signal,
        AbortSignal.timeout(TITLE_TIMEOUT_MS),
      ]);
      const name = await generateTitle(model, { text, modelName, signal });
      if (name !== '') await setNameIfEmpty(db, { sessionId, name });
    } catch (error) {
      log.warn({ err: error, session_id: sessionId }, 'a session could not be named');
    }
  }

  return {
    events,

    /**
     * Stores a message of the session's owner and begins its turn. Does not store a repeated message.
     * @throws ProblemError `session_not_found`, `session_not_yours`, `profile_not_found`, `admin_only`,
     *   `message_name_taken`, `turn_running` or `too_many_turns`; `unavailable` during shutdown.
     */
    send: (
      user: User,
      { sessionId, ...message }: UserMessage,
      sender: MessageSender,
    ): Promise<{ turnId: string; isNew: boolean }> =>
      track(async () => {
        const turnSetup = await prepareTurn(user, sessionId, sender);
        const startedTurn = await beginTurn(db, { userId: user.id, sessionId }, message);
        if ('repeatedTurnId' in startedTurn)
          return { turnId: startedTurn.repeatedTurnId, isNew: false };
        startTurn(startedTurn, turnSetup);
        return { turnId: startedTurn.key.turnId, isNew: true };
      }),

    /**
     * Begins a new turn for the last question if its answer is incomplete.
     * @throws ProblemError `nothing_to_retry`, or an error of `send`.
     */
    retry: (user: User, sessionId: string, sender: MessageSender): Promise<void> =>
      track(async () => {
        const turnSetup = await prepareTurn(user, sessionId, sender);
        startTurn(await retryTurn(db, { userId: user.id, sessionId }), turnSetup);
      }),

    /**
     * Cancels the running turn. The answer keeps its text.
     * @throws ProblemError `session_not_found`, `session_not_yours` or `no_turn_running`.
     */
    async cancel(user: User, sessionId: string): Promise<void> {
      await requireSession(db, { sessionId, scope: { userId: user.id } });
      const turn = events.getRunningTurn(sessionId);
      if (turn !== undefined) return turn.stop('cancelled');
      await reaper.abortStaleTurns({ sessionId });
      const latestTurn = await findLatestTurn(db, sessionId);
      if (latestTurn?.status !== 'running') throw problem('no_turn_running');
      await requestCancel(db, latestTurn.id);
    },

    /**
     * Reverts the changes that a step made to the user's memory.
     * @throws ProblemError `session_not_found`, `session_not_yours`, `nothing_to_undo` or `memory_full`.
     */
    async undo({ id: userId }: User, step: { sessionId: string; stepId: string }): Promise<void> {
      await requireSession(db, { sessionId: step.sessionId, scope: { userId } });
      await undoStep(db, { userId, ...step });
    },

    /**
     * Returns the start cursor for a listener, and whether the latest turn is running. The cursor follows the client's
     * last known event of that turn. Without such an event, it precedes a running turn or follows an ended one.
     */
    async findCursor(
      sessionId: string,
      lastKnownEvent?: { turnId: string; seq: number },
    ): Promise<{ cursor: EventCursor; isRunning: boolean }> {
      await reaper.abortStaleTurns({ sessionId });
      const latestTurn = await findLatestTurn(db, sessionId);
      if (latestTurn === undefined) return { cursor: INITIAL_CURSOR, isRunning: false };
      const { id: turnId, position, status } = latestTurn;
      const isRunning = status === 'running';
      if (lastKnownEvent?.turnId === turnId) {
        return {
          cursor: { turnId, position, seq: lastKnownEvent.seq, hasEnded: false },
          isRunning,
        };
      }
      const seq = isRunning ? 0 : MAX_SEQ;
      return { cursor: { turnId, position, seq, hasEnded: !isRunning }, isRunning };
    },

    ...reaper,

    /** Waits for the running turns up to a time limit, aborts the remaining ones, and closes the event log. */
    async close(): Promise<void> {
      shutdownController.abort();
      await Promise.race([waitForRunning(), sleep(shutdownMs, undefined, { ref: false })]);
      isShutdownOverdue = true;
      for (const turn of events.listRunningTurns()) turn.stop('closing');
      await waitForRunning();
      await events.close();
    },
  };
}

/** Maximum sequence number of an event. The database column is a 32-bit integer. */
const MAX_SEQ = 2 ** 31 - 1;

/** The cursor before the first turn of a session. */
export const INITIAL_CURSOR: EventCursor = { turnId: '', position: 0, seq: 0, hasEnded: true };

/**
 * Registers server hooks that run the reaper while the server listens and finish turns before the model closes.
 * @param options.isExclusive Whether only this process uses the database. If so, running turns are stale at startup.
 */
export function registerChatLifecycle(
  app: Server,
  {
    chat,
    model,
    isExclusive,
  }: {
    chat: Pick<ChatService, 'abortStaleTurns' | 'close'>;
    model: Pick<ModelClient, 'close'>;
    isExclusive: boolean;
  },
): void {
  let timer: NodeJS.Timeout | undefined;
  let reapRun: Promise<void> | undefined;
  let shutdown: Promise<void> | undefined;
  const reap = (options = {}) => {
    reapRun ??= chat
      .abortStaleTurns(options)
      .catch((error: unknown) => {
        app.log.warn({ err: error }, 'stale turns could not be aborted');
      })
      .finally(() => {
        reapRun = undefined;
      });
  };
  app.addHook('onListen', (done) => {
    reap({ includesActive: isExclusive });
    timer = setInterval(reap, REAP_INTERVAL_MS).unref();
    done();
  });
  const endTurns = () => (shutdown ??= finishTurns());
  onDrain(app, endTurns);
  app.addHook('onClose', async () => {
    await endTurns();
    await model.close();
  });

  async function finishTurns(): Promise<void> {
    clearInterval(timer);
    await reapRun;
    await chat.close();
  }
}
