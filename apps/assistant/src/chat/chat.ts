import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { commonProblem, type Logger, problemBody } from '@oselya/kit';
import type { ModelClient } from '@oselya/model';
import type { User } from '../access/permissions.ts';
import type { AgentLimits } from '../agent/agent.ts';
import type { RequestDeps } from '../agent/context.ts';
import { problem } from '../errors.ts';
import type { Profile } from '../profiles/profile-file.ts';
import type { Profiles } from '../profiles/profiles.ts';
import { presentMessage, requireSession } from '../sessions/index.ts';
import { createAnnounce } from './announce.ts';
import { type Begun, beginAgain, beginTurn } from './begin-turn.ts';
import { createCutter } from './cut-stale.ts';
import { isEnd, newAfter } from './events.ts';
import { createEventStore } from './event-store.ts';
import { createFollower } from './follow.ts';
import type { ChatMetrics } from './metrics.ts';
import { nameSession } from './name-session.ts';
import { createChangeTeller } from './tell-changes.ts';
import { createHub, type Earlier, type Listener, type Send } from './hub.ts';
import { type Asker, runTurn } from './run-turn.ts';
import { undoStep } from './undo-step.ts';
import type { Turn, TurnKey } from './turn.ts';
import { lastStored, readEvents } from './turn-events.sql.ts';
import { findTurn, latestTurn, requestCancel } from './turns.sql.ts';

/** How long turns may go on at a shutdown before they are cut off, unless it is said otherwise. */
const SHUTDOWN_MS = 20_000;

/** Conversations with an agent. */
export type Chat = ReturnType<typeof createChat>;

/** A message to an agent. */
export type Sent = {
  sessionId: string;
  text: string;
  /** The client's name for it: sent again under the same name it is the same message. */
  clientMessageId?: string | undefined;
};

/** Whoever asks, for as long as the answer takes. */
export type Holder = {
  requestId: string;
  /** Is told of the turn before anything happens in it. */
  began: (key: TurnKey) => void;
  /** Watches that they stay signed in, until they are released. */
  hold: (onSignedOut: () => void) => {
    /** As of this moment. Throws as `LiveUser.current` does. */
    current: () => Promise<User>;
    release: () => void;
  };
};

/** How much of a turn somebody knows already. */
export type Known = { turnId: string; after: number };

/**
 * Conversations: takes messages, has an agent answer them, one at a time in each session, and tells whoever
 * listens, on this process or another. Contract 3, WebSocket.
 */
export function createChat({
  model,
  profiles,
  log,
  limits,
  metrics,
  shutdownMs = SHUTDOWN_MS,
  ...requests
}: RequestDeps & {
  model: Pick<ModelClient, 'streamChat'>;
  profiles: Profiles;
  log: Logger;
  limits: AgentLimits;
  metrics: ChatMetrics;
  /** How long the turns that run at the end may go on. */
  shutdownMs?: number;
}) {
  const { db } = requests;
  const sender = randomUUID();
  const hub = createHub();
  const here = { db, hub, sender, log };
  const store = createEventStore(here);
  const follower = createFollower(here, store.renew);
  const changes = createChangeTeller(here);
  const cutter = createCutter(here, () => metrics.countTurn('cut'));
  const running = new Set<Promise<unknown>>();
  const closing = new AbortController();
  /** Whether the answers that were waited for at the end were cut off. */
  let areStopped = false;

  /** One may begin while another is waited for. */
  async function allEnded(): Promise<void> {
    while (running.size > 0) await Promise.allSettled(running);
  }

  /** Has the end of the process wait for work. */
  async function untilDone<Result>(work: () => Promise<Result>): Promise<Result> {
    const done = work();
    running.add(done);
    try {
      return await done;
    } finally {
      running.delete(done);
    }
  }

  /** What the turns of one session need to know of it. */
  type Setting = { profile: Profile; isNamed: boolean };

  function run(
    { key, question, replaces }: Begun,
    setting: Setting,
    user: User,
    holder: Holder,
  ): void {
    const { profile, isNamed } = setting;
    const turn = hub.start(key);
    holder.began(key);
    if (areStopped) turn.stop('closing');
    turn.add({
      type: 'message.started',
      message: presentMessage(question),
      ...(replaces !== undefined && { replaces }),
    });
    const live = holder.hold(() => turn.stop('signed-out'));
    const deps = { ...requests, model, limits, metrics, sender, log };
    const { requestId } = holder;
    const asker: Asker = {
      user,
      async currentUser() {
        const current = await live.current();
        profiles.checkUse(current, profile);
        return current;
      },
      requestId,
    };
    void untilDone(async () => {
      const outcome = await runTurn(deps, turn, { profile, asker });
      live.release();
      hub.finish(turn);
      if (outcome === undefined) await tellEnd(turn, requestId);
      follower.goOn(turn.sessionId);
      if (outcome?.status !== 'completed' || isNamed) return;
      const first = { text: question.content, modelName: profile.model };
      const naming = { db, model, signal: closing.signal };
      await nameSession(naming, turn.sessionId, first).catch((error: unknown) => {
        log.warn({ err: error, session_id: turn.sessionId }, 'a session could not be named');
      });
    });
  }

  /** Runs a turn that has begun, after whoever listens has been told of what other processes did before it. */
  async function start(begun: Begun, setting: Setting, user: User, holder: Holder): Promise<void> {
    await follower.catchUp({ sessionId: begun.key.sessionId, position: begun.before });
    run(begun, setting, user, holder);
  }

  /** Of a turn that was not this process's to end tells whoever listens how it did end. */
  async function tellEnd(turn: Turn, requestId: string): Promise<void> {
    try {
      const row = await findTurn(db, turn.turnId);
      if (row === undefined) {
        const gone = problemBody(problem('session_not_found'), requestId);
        hub.deliver(turn, [{ type: 'error', problem: gone, seq: turn.lastSeq + 1 }]);
      } else {
        const events = await readEvents(db, { turnId: turn.turnId, after: 0 });
        hub.deliver(turn, newAfter(events, turn.lastSeq));
      }
    } catch (error) {
      log.warn({ err: error, turn_id: turn.turnId }, 'the end of a turn could not be told');
    }
  }

  /** @throws ProblemError of `send`, but for those of turns. */
  async function prepare(user: User, sessionId: string): Promise<Setting> {
    // Only the owner speaks in a session, whoever may read it.
    const session = await requireSession(db, { sessionId, reach: { userId: user.id } });
    if (closing.signal.aborted) throw commonProblem('unavailable');
    await cutter.cutStale(sessionId);
    // Sessions of an older system name none, and a profile may have been removed.
    const known = profiles.find(session.profileId)?.profile_id;
    return { profile: profiles.choose(user, known), isNamed: session.name !== '' };
  }

  return {
    /**
     * Stores a message of the owner's and begins to answer it.
     * @returns The turn that answers it, and whether that began now: a message that was sent before is not stored again.
     * @throws ProblemError `session_not_found`, `session_not_yours`, `profile_not_found`, `admin_only`,
     *   `message_name_taken`, `turn_running` or `too_many_turns`.
     */
    async send(
      user: User,
      { sessionId, ...message }: Sent,
      holder: Holder,
    ): Promise<{ turnId: string; isNew: boolean }> {
      return untilDone(async () => {
        const setting = await prepare(user, sessionId);
        const begun = await beginTurn(db, { userId: user.id, sessionId }, message);
        if ('repeats' in begun) return { turnId: begun.repeats, isNew: false };
        await start(begun, setting, user, holder);
        return { turnId: begun.key.turnId, isNew: true };
      });
    },

    /**
     * Answers the last message again, whose answer is not complete.
     * @throws ProblemError those of `send`, and `nothing_to_retry`.
     */
    async retry(user: User, sessionId: string, holder: Holder): Promise<void> {
      await untilDone(async () => {
        const setting = await prepare(user, sessionId);
        const begun = await beginAgain(db, { userId: user.id, sessionId });
        await start(begun, setting, user, holder);
      });
    },

    /**
     * Ends the answer that is being written; what there is of it is kept.
     * @throws ProblemError `session_not_found`, `session_not_yours` or `no_turn_running`.
     */
    async cancel(user: User, sessionId: string): Promise<void> {
      await requireSession(db, { sessionId, reach: { userId: user.id } });
      const turn = hub.turnOf(sessionId);
      if (turn !== undefined) return turn.stop('cancelled');
      await cutter.cutStale(sessionId);
      const latest = await latestTurn(db, sessionId);
      if (latest?.status !== 'running') throw problem('no_turn_running');
      await requestCancel(db, { turnId: latest.id, sessionId, sender });
    },

    /**
     * Takes back what a tool changed in the user's memory.
     * @throws ProblemError `session_not_found`, `session_not_yours`, `nothing_to_undo` or `memory_full`.
     */
    async undo(user: User, step: { sessionId: string; stepId: string }): Promise<void> {
      const { sessionId } = step;
      await requireSession(db, { sessionId, reach: { userId: user.id } });
      const isUndone = await undoStep(db, { userId: user.id, ...step });
      if (!isUndone) throw problem('nothing_to_undo');
    },

    /** Says something in a session without having been asked. */
    announce: createAnnounce(db),

    /** Listens to a session; whoever asks must be its owner. */
    listen: (sessionId: string, send: Send): Listener => hub.listen(sessionId, send),

    /**
     * What has happened in the newest turn of a session, for somebody who begins to listen: of one that
     * runs, or that they know a part of, what they do not know.
     */
    async earlier(
      sessionId: string,
      known?: Known,
    ): Promise<(Earlier & { isRunning: boolean }) | undefined> {
      await cutter.cutStale(sessionId);
      const latest = await latestTurn(db, sessionId);
      const turn = hub.turnOf(sessionId);
      const knownOf = (turnId: string) => (known?.turnId === turnId ? known.after : 0);
      if (turn !== undefined) {
        const after = knownOf(turn.turnId);
        return { key: turn, after, knowsEnd: false, events: turn.after(after), isRunning: true };
      }
      if (latest === undefined) return undefined;
      const key = { turnId: latest.id, sessionId, position: latest.position };
      const isRunning = latest.status === 'running';
      const isWanted = isRunning || known?.turnId === latest.id;
      if (!isWanted) {
        // It stands in the messages.
        const after = await lastStored(db, latest.id);
        return { key, after, knowsEnd: true, events: [], isRunning };
      }
      const after = knownOf(latest.id);
      // The end of one that was cut off is numbered after what was stored, of which they may know more.
      const from = latest.status === 'cut' ? 0 : after;
      const events = newAfter(await readEvents(db, { turnId: latest.id, after: from }), after);
      // Of one that has ended, the end is among what they do not know, or they know it.
      const knowsEnd = !isRunning && !events.some(isEnd);
      return { key, after, knowsEnd, events, isRunning };
    },

    /** Takes a notification of `TURN_CHANNEL`. */
    hear: follower.hear,

    /** Takes a notification of `SESSION_CHANNEL`. */
    hearChange: changes.hear,

    /** Cuts off the answers of processes that have gone. */
    cutAllStale: (options?: { all?: boolean }) => cutter.cutAllStale(options),

    /** Waits for the turns that run, cuts those off that take too long, and ends. */
    async close(): Promise<void> {
      closing.abort();
      await Promise.race([allEnded(), sleep(shutdownMs, undefined, { ref: false })]);
      areStopped = true;
      for (const turn of hub.running()) turn.stop('closing');
      await allEnded();
      store.close();
      await Promise.all([follower.close(), changes.close()]);
    },
  };
}
