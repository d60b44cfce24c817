const LEAP_SECOND = /:60(?=[.Zz+-])/;

/**
 * The instant that a text of RFC 3339 names. The RFC has leap seconds and JavaScript has none: the second
 * before stands for one. A text that is no date gives an invalid one.
 */
export function instantOf(text: string): Date {
  return new Date(text.replace(LEAP_SECOND, ':59'));
}

/** Whether the instant is not the one that the text names, but stands for it. */
export function isLeapSecond(text: string): boolean {
  return LEAP_SECOND.test(text);
}
