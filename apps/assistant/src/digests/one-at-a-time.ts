/** See {@link oneAtATime}. */
export type OneAtATime = (() => Promise<void>) & {
  /** What is being done, and what is to be done after it; nothing where nothing is. */
  current: () => Promise<void> | undefined;
};

/**
 * Work that is never done twice at once. What asks for it while it is being done is not too late: it is done once
 * more, for what it had not seen, whatever became of it the first time.
 * @returns Does it, and settles as that time did for which it was asked.
 */
export function oneAtATime(work: () => Promise<void>): OneAtATime {
  let current: Promise<void> | undefined;
  let next: Promise<void> | undefined;

  function begin(): Promise<void> {
    next = undefined;
    current = work().finally(() => {
      current = undefined;
    });
    return current;
  }

  function run(): Promise<void> {
    // Between the end of one time and the beginning of the next there is none that is current.
    if (next !== undefined) return next;
    if (current === undefined) return begin();
    next = current.then(begin, begin);
    return next;
  }

  return Object.assign(run, { current: () => next ?? current });
}
