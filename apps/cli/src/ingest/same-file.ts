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

/** What tells a file from all others, whatever it is called; undefined where there is none. */
function identityOf(file: string | number | undefined): string | undefined {
  if (file === undefined) return undefined;
  const found =
    typeof file === 'number'
      ? fstatSync(file, { bigint: true })
      : statSync(file, { bigint: true, throwIfNoEntry: false });
  return found?.isFile() ? `${found.dev}:${found.ino}` : undefined;
}
