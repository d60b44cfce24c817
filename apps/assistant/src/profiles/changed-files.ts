import { stat } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';

/**
 * Makes what reads files that change now and then: when any of them has changed, and then all have stayed as they are
 * from one look to the next, so that what is being written in place, or renamed, is not taken half. Only what has
 * changed is read.
 * @param read Gives the content of a file by its path; what is wrong with it is a part of that.
 * @returns Looks at files by their paths, and gives the contents of all of them; nothing where they are as they were
 *   when they were last given, or are still changing.
 */
export function createChangedFiles<Content>(
  read: (path: string) => Promise<Content>,
): (paths: readonly string[]) => Promise<ReadonlyMap<string, Content> | undefined> {
  /** At the last look, and at the last reading. */
  let looked: States = new Map();
  let given: States | undefined;
  let contents: ReadonlyMap<string, Content> = new Map();

  return async (paths) => {
    const states = await statesOf(paths);
    const hasStayed = isDeepStrictEqual(states, looked);
    looked = states;
    if (!hasStayed || isDeepStrictEqual(states, given)) return undefined;
    const all = new Map<string, Content>();
    for (const [path, state] of states) {
      const before = given?.get(path) === state ? contents.get(path) : undefined;
      all.set(path, before ?? (await read(path)));
    }
    looked = await statesOf(paths);
    if (!isDeepStrictEqual(states, looked)) return undefined;
    [given, contents] = [states, all];
    return all;
  };
}

/** For each path what changes with whatever is done to its file. */
type States = ReadonlyMap<string, string>;

async function statesOf(paths: readonly string[]): Promise<States> {
  const states = new Map<string, string>();
  for (const path of paths) states.set(path, await stateOf(path));
  return states;
}

/** The change time is part of it: nobody can set that, and it tells a write that kept the size and the other time. */
async function stateOf(path: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
    return [dev, ino, size, mtimeNs, ctimeNs].join(' ');
  } catch (error) {
    return String((error as NodeJS.ErrnoException).code);
  }
}
