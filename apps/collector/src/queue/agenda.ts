import type { BreakerView } from '@oselya/model';
import type { Slots } from './slots.ts';

/** The longest pause after a claim that failed. */
const MAX_PAUSE_MS = 5000;

/** For how many polls others go before jobs that the model may have failed on, while the model may be tried. */
const MOST_SPARED_POLLS = 30;

/** So many such jobs are remembered; the first of them are forgotten first. */
const MAX_SUSPECTS = 100;

/**
 * Waits for a word: a slot is free, there may be work, the model's state changed. After so long it looks anyway. A
 * pause follows a claim that failed: many words at its beginning are not as many claims.
 */
export type WaitStep = { do: 'wait' | 'pause'; ms: number };

/** What a worker does next. */
type Step = { do: 'claim' | 'stop' } | WaitStep;

/** Decides what a worker does next, from what it is told of the steps before. It does nothing by itself. */
export type Agenda = {
  next(): Step;
  /**
   * Whether the model keeps jobs back. Half-open, it keeps none until one has met the probe and came back: those
   * that ask another of the servers go on. That is looked up and not remembered, so that a probe which ended
   * before the job was back keeps nothing, nor does one whose end nobody told, for longer than a poll.
   */
  isKeptBack(): boolean;
  /** A claim is about to be made. Gives the jobs that it is to leave out, which `suspected` has named. */
  claiming(): readonly number[];
  /**
   * A claim was made: it brought jobs, or there are none for now beside those that it left out.
   * @param result.isBeyond Whether it was one beyond the slots, which asks for few of the others: it is no turn of
   *   theirs.
   */
  claimed(result: { isEmpty: boolean; leftOut?: readonly number[]; isBeyond?: boolean }): void;
  /** Jobs may not be claimed now, for a reason that the next word or poll asks for again. */
  refused(): void;
  /** A claim failed, whatever the reason. */
  failed(): void;
  /** A wait or a pause is over. */
  woke(): void;
  /** A job went back, because what it needs was not there. */
  postponed(): void;
  /**
   * The model's server failed while it worked on a job, which may be what it fails on: others go first, once. While
   * the model may be tried they go first until one of them has shown how it is: else the jobs that come to the
   * model soonest would be each of its probes, and keep all others from it for ever. Where none but such jobs are
   * left, they go one after another.
   */
  suspected(rawId: number): void;
};

/**
 * Makes the agenda of a worker: with a free slot it claims again at once while there is work, and otherwise waits.
 * Where all slots have been taken for as long as a poll, it claims for those beyond them. Contract 4, Queue;
 * docs/adr/0020-fair-share.md.
 * @param deps.random From 0 to 1, for the pauses of workers that fail together to end apart.
 * @param deps.clock Milliseconds that only grow.
 */
export function createAgenda(deps: {
  slots: Pick<Slots, 'free' | 'extra' | 'isEmpty'>;
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
  /** When each was suspected, the last one last. */
  const suspects = new Map<number, number>();
  let lastOpenAt = -Infinity;
  let hasOneComeBack = false;
  let restUntil = 0;
  let claimedAt = -Infinity;

  function isKeptBack(): boolean {
    return breaker.state === 'open' || (hasOneComeBack && breaker.isProbing);
  }

  /** While the model could not be tried none of the others could show how it is, so that time does not count. */
  function isStillSpared(rawId: number): boolean {
    const since = Math.max(suspects.get(rawId) ?? -Infinity, lastOpenAt);
    return breaker.state !== 'closed' && clock() - since < MOST_SPARED_POLLS * pollMs;
  }

  function pauseMs(): number {
    const longest = Math.min(MAX_PAUSE_MS, pollMs * 2 ** (failures - 1));
    return longest * (0.5 + random() / 2);
  }

  /** What could be claimed at once was, at each claim: only jobs that have been there for longer stand in the way. */
  const mayClaimBeyond = () => slots.extra > 0 && clock() - claimedAt >= pollMs;

  const mayClaim = () =>
    (slots.free > 0 || mayClaimBeyond()) && clock() >= restUntil && !isKeptBack();

  return {
    next() {
      if (stopping.aborted) return { do: 'stop' };
      if (breaker.state === 'open') lastOpenAt = clock();
      if (waitsFor === 'a pause') return { do: 'pause', ms: pauseMs() };
      if (waitsFor === 'nothing' && mayClaim()) return { do: 'claim' };
      return { do: 'wait', ms: pollMs };
    },
    isKeptBack,
    claiming() {
      hasOneComeBack = false;
      return [...suspects.keys()];
    },
    claimed({ isEmpty, leftOut = [], isBeyond = false }) {
      failures = 0;
      claimedAt = clock();
      const due = leftOut.filter((rawId) => !isStillSpared(rawId));
      // Where only such jobs are left, the first of them is as good as any.
      if (due.length === 0 && isEmpty && slots.isEmpty) due.push(...leftOut.slice(0, 1));
      if (due.length > 0 && !isBeyond) {
        for (const rawId of due) suspects.delete(rawId);
        return;
      }
      if (isEmpty) waitsFor = 'a word';
    },
    refused() {
      waitsFor = 'a word';
    },
    failed() {
      failures += 1;
      waitsFor = 'a pause';
    },
    woke() {
      waitsFor = 'nothing';
    },
    postponed() {
      // Asking again at once would only turn in a circle.
      restUntil = clock() + pollMs;
      hasOneComeBack = true;
    },
    suspected(rawId) {
      suspects.delete(rawId);
      suspects.set(rawId, clock());
      const [first] = suspects.keys();
      if (suspects.size > MAX_SUSPECTS && first !== undefined) suspects.delete(first);
    },
  };
}
