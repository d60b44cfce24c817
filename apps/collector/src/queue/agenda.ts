import type { BreakerView } from '@oselya/model';
import type { Slots } from './slots.ts';

/** The longest pause after a claim that failed. */
const MAX_PAUSE_MS = 5000;

/** Claims jobs for free slots, or one that is to be alone in the process. */
export type ClaimStep = { do: 'claim' | 'claim alone' };

/**
 * Waits for a word: a slot is free, there may be work, the model's state changed. After so long it looks anyway. A
 * pause follows a claim that failed: many words at its beginning are not as many claims.
 */
export type WaitStep = { do: 'wait' | 'pause'; ms: number };

/** What a worker does next. */
type Step = ClaimStep | WaitStep | { do: 'stop' };

/** Decides what a worker does next, from what it is told of the steps before. It does nothing by itself. */
type Agenda = {
  next(): Step;
  /**
   * A job that went back, because what it needs was not there: others go first, once, since it may be what
   * the model fails on.
   */
  readonly spared: number | undefined;
  /**
   * Whether the model keeps jobs back. Half-open, it keeps none until one has met the probe and came back: those
   * that ask another of the servers go on. That is looked up and not remembered, so that a probe which ended
   * before the job was back keeps nothing, nor does one whose end nobody told, for longer than a poll.
   */
  isKeptBack(): boolean;
  /**
   * A claim was made: it brought jobs, or there are none for now. A job that it spared need not be any more. With
   * nothing else to do, the worker sees whether one waits to be alone.
   */
  claimed(result: { isEmpty: boolean; spared?: number | undefined }): void;
  /** The one job was claimed that is to be alone: until it has ended nothing else is. Or there was none. */
  claimedAlone(result: { isEmpty: boolean }): void;
  /** Jobs may not be claimed now, for a reason that the next poll asks for again. */
  refused(): void;
  /** What was claimed is of sources that have all that they may: the slots that are left wait for others. */
  reserved(): void;
  /** A claim failed, whatever the reason. */
  failed(): void;
  /** A wait or a pause is over. */
  woke(): void;
  /** A job went back, because what it needs was not there. */
  postponed(rawId: number): void;
  /** A job waits to be claimed alone: once those in progress have ended it comes before others. */
  aloneIsDue(): void;
};

/**
 * Makes the agenda of a worker: with a free slot it claims again at once while there is work, and otherwise waits.
 * Contract 4, Queue.
 * @param deps.random From 0 to 1, for the pauses of workers that fail together to end apart.
 * @param deps.clock Milliseconds that only grow.
 */
export function createAgenda(deps: {
  slots: Pick<Slots, 'free' | 'isEmpty'>;
  breaker: BreakerView;
  stopping: AbortSignal;
  pollMs: number;
  random?: () => number;
  clock?: () => number;
}): Agenda {
  const { slots, breaker, stopping, pollMs } = deps;
  const { random = Math.random, clock = () => performance.now() } = deps;
  /** What is to be waited for: a word, after a look that found nothing, or the end of a pause. */
  let waitsFor: 'nothing' | 'a word' | 'a pause' = 'nothing';
  let failures = 0;
  let spared: number | undefined;
  let restUntil = 0;
  /** Whether a job waits to be alone, in whose favour nothing else is claimed; others have a turn after it. */
  let alone: 'none' | 'due' | 'claimed' | 'after others' = 'none';
  /** Whether the look before found nothing for free slots. */
  let foundNone = false;

  function isKeptBack(): boolean {
    return breaker.state === 'open' || (spared !== undefined && breaker.isProbing);
  }

  function pauseMs(): number {
    const longest = Math.min(MAX_PAUSE_MS, pollMs * 2 ** (failures - 1));
    return longest * (0.5 + random() / 2);
  }

  /** Which claim may be made, if any. */
  function nextClaim(): 'claim' | 'claim alone' | undefined {
    if (slots.free <= 0 || clock() < restUntil || isKeptBack()) return undefined;
    if (alone === 'claimed' && slots.isEmpty) alone = 'after others';
    if (alone === 'claimed') return undefined;
    if (alone !== 'due') return 'claim';
    return slots.isEmpty ? 'claim alone' : undefined;
  }

  return {
    next() {
      if (stopping.aborted) return { do: 'stop' };
      if (waitsFor === 'a pause') return { do: 'pause', ms: pauseMs() };
      const claim = waitsFor === 'nothing' ? nextClaim() : undefined;
      return claim === undefined ? { do: 'wait', ms: pollMs } : { do: claim };
    },
    get spared() {
      return spared;
    },
    isKeptBack,
    claimed({ isEmpty, spared: leftOut }) {
      failures = 0;
      // Where only that job is left, it is as good as any. Another may have come back meanwhile.
      if (spared === leftOut) spared = undefined;
      foundNone = isEmpty && leftOut === undefined;
      if (alone === 'after others' || (foundNone && slots.isEmpty)) alone = 'due';
      else if (foundNone) waitsFor = 'a word';
    },
    claimedAlone({ isEmpty }) {
      failures = 0;
      alone = isEmpty ? 'none' : 'claimed';
      if (isEmpty && foundNone) waitsFor = 'a word';
      foundNone = false;
    },
    refused() {
      waitsFor = 'a word';
    },
    reserved() {
      waitsFor = 'a word';
    },
    failed() {
      failures += 1;
      waitsFor = 'a pause';
    },
    woke() {
      waitsFor = 'nothing';
    },
    postponed(rawId) {
      // Asking again at once would only turn in a circle.
      restUntil = clock() + pollMs;
      spared = rawId;
    },
    aloneIsDue() {
      if (alone === 'none') alone = 'due';
    },
  };
}
