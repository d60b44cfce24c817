import { fstatSync, statSync } from 'node:fs';

/**
 * Whether two names are of one file, as those of a link and of what it links to. Pipes and terminals are no files: they
 * are read and written at once.
 * @param one A path, or the descriptor of what is open already; undefined for what is neither.
 */
export function isSameFile(one: string | number | undefined, other: string): boolean {
  const [first, second] = [identityOf(one), identityOf(other)];
  return first !== undefined && first === second;
}

/** What tells a file from all others, whatever it is called; undefined where none can be found. */
function identityOf(file: string | number | undefined): string | undefined {
  if (file === undefined) return undefined;
  try {
    const look = { bigint: true } as const;
    const found = typeof file === 'number' ? fstatSync(file, look) : statSync(file, look);
    return found.isFile() ? `${found.dev}:${found.ino}` : undefined;
  } catch {
    // Whoever opens it says why.
    return undefined;
  }
}
