/** The ports that a text stands for, one or a range such as `3000-3002`; null where it stands for none. */
export function portsOf(written: string): number[] | null {
  const [, first = '', last = first] = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(written) ?? [];
  const [from, to] = [Number(first), Number(last)];
  if (first === '' || from < 1 || to > 65_535 || to < from) return null;
  return Array.from({ length: to - from + 1 }, (_, index) => from + index);
}
