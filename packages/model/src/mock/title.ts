const MAX_TITLE = 120;

/** Signs that shout or decorate and say nothing. */
const NOISE = /[\p{Extended_Pictographic}\u{FE0F}\u{20E3}*_~|<>#=]+/gu;

/** Words such as "ТЕРМІНОВО!!!" at the start of a title. */
const SHOUT = /^(?:(?:терміново|срочно|увага|внимание|urgent|hot|топ|vip|акція)[\s!.,:-]+)+/iu;

/** A source's title without decoration and shouting, at most 120 characters; null if nothing stays. */
export function cleanTitle(title: string): string | null {
  const calm = title
    .replace(NOISE, ' ')
    .replace(/([!?.,-])\1+/gu, '$1')
    .replace(/\s+/gu, ' ')
    .trim()
    .replace(SHOUT, '')
    .replace(/[\s!.,;:-]+$/u, '');
  if (!/\p{L}/u.test(calm)) return null;
  if (calm.length <= MAX_TITLE) return calm;
  const cut = calm.slice(0, MAX_TITLE);
  const lastSpace = cut.lastIndexOf(' ');
  return `${cut.slice(0, lastSpace > 0 ? lastSpace : MAX_TITLE - 1).trimEnd()}…`;
}
