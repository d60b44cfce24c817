import { createStore, useStore } from '@mantine/store';

/** Maximum number of listings side by side. */
export const MAX_COMPARED = 5;

const STORAGE_KEY = 'oselya-comparison';
const store = createStore<readonly number[]>(
  readIds(sessionStorage.getItem(STORAGE_KEY)?.split(',')),
);

/** Reads the IDs of an address: at most five, each once. */
export function readIds(texts: readonly string[] = []): number[] {
  const numbers = texts.map(Number).filter((id) => Number.isSafeInteger(id) && id > 0);
  return [...new Set(numbers)].slice(0, MAX_COMPARED);
}

/** Keeps the IDs of the comparison until the tab is closed. */
export function setComparison(changed: readonly number[]): void {
  store.setState(changed);
  sessionStorage.setItem(STORAGE_KEY, changed.join(','));
}

/** Adds a listing to the comparison, or removes it. A full comparison takes no more. */
export function toggleCompared(id: number): void {
  const ids = store.getState();
  if (ids.includes(id)) setComparison(ids.filter((other) => other !== id));
  else if (ids.length < MAX_COMPARED) setComparison([...ids, id]);
}

/** Returns the IDs of the comparison. */
export const useComparison = (): readonly number[] => useStore(store);
