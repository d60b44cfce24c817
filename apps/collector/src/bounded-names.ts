/** Names that a label may take. */
export type BoundedNames = {
  /** The name of what is known to be there: it takes one of the places. */
  take(name: string): string;
  /** The name of what may have been made up: it takes none. */
  find(name: string): string;
};

/**
 * Bounds how many values a label takes: each makes a time series, which stays for as long as the process lives.
 * @param max So many names stand for themselves, the first that are taken; others are `other`.
 */
export function boundedNames(max: number): BoundedNames {
  const names = new Set<string>();
  const find = (name: string) => (names.has(name) ? name : 'other');
  return {
    take(name) {
      if (names.size < max) names.add(name);
      return find(name);
    },
    find,
  };
}
