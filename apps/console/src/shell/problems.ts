import { createStore, useStore } from '@mantine/store';

/** Error of an action, which is shown until the user closes it. */
export type ActionProblem = { id: number; error: unknown };

/** Maximum number of errors that are shown at once. The oldest ones leave first. */
const MAX_PROBLEMS = 3;

const store = createStore<readonly ActionProblem[]>([]);
let lastId = 0;

/** Shows the error of an action. Every failed mutation is shown, unless its `meta` has `isHandled`. */
export function showProblem(error: unknown): void {
  lastId += 1;
  store.setState([...store.getState(), { id: lastId, error }].slice(-MAX_PROBLEMS));
}

/** Removes an error from the page. */
export function closeProblem(id: number): void {
  store.setState(store.getState().filter((problem) => problem.id !== id));
}

/** Returns the errors of actions that are shown. */
export const useProblems = (): readonly ActionProblem[] => useStore(store);
