import { useSyncExternalStore } from 'react';

/** Error of an action, which is shown until the user closes it. */
export type ActionProblem = { id: number; error: unknown };

const listeners = new Set<() => void>();
let problems: readonly ActionProblem[] = [];
let lastId = 0;

/** Maximum number of errors that are shown at once. The oldest ones leave first. */
const MAX_PROBLEMS = 3;

function setProblems(changed: readonly ActionProblem[]): void {
  problems = changed;
  for (const notify of listeners) notify();
}

/** Shows the error of an action. Every failed mutation is shown, unless its `meta` has `isHandled`. */
export function showProblem(error: unknown): void {
  lastId += 1;
  setProblems([...problems, { id: lastId, error }].slice(-MAX_PROBLEMS));
}

/** Removes an error from the page. */
export function closeProblem(id: number): void {
  setProblems(problems.filter((problem) => problem.id !== id));
}

function subscribe(notify: () => void): () => void {
  listeners.add(notify);
  return () => listeners.delete(notify);
}

/** Returns the errors of actions that are shown. */
export const useProblems = (): readonly ActionProblem[] =>
  useSyncExternalStore(subscribe, () => problems);
