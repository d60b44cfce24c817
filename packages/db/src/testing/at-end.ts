import { after } from 'node:test';

const opened = new AsyncDisposableStack();
after(() => opened.disposeAsync());

/**
 * Calls a function when the tests of the file have ended: the last one given first, so that what uses a
 * database ends before the database goes, and each of them even when another fails. (Hooks of Node's runner
 * are called in the order of their registration, and none after one that failed.)
 */
export function atEnd(work: () => Promise<void> | void): void {
  opened.defer(work);
}
