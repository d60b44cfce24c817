/**
 * The instant that a text of RFC 3339 names. The RFC has leap seconds and JavaScript has none: the second
 * before stands for one. A text that is no date gives an invalid one.
 */
export function instantOf(text: string): Date {
  return new Date(text.replace(/:60(?=[.Zz+-])/, ':59'));
}
