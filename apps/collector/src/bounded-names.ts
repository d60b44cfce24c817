/**
 * Bounds how many values a label takes: each makes a time series, which stays for as long as the process lives.
 * @param max So many names stand for themselves, the first that come.
 * @returns The name, or `other` for one beyond them.
 */
export function boundedNames(max: number): (name: string) => string {
  const names = new Set<string>();
  return (name) => {
    if (names.has(name)) return name;
    if (names.size >= max) return 'other';
    names.add(name);
    return name;
  };
}
