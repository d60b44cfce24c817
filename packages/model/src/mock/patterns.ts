/**
 * What `\p{L}` and `\p{N}` stand for in the rules, as the inside of a class: the letters of the alphabets that they
 * know, and digits. Compiled with all that Unicode has, the rules would take every process a third of a second more at
 * the first text that it reads.
 */
const KNOWN = { L: 'A-Za-zªµºÀ-ÖØ-öø-ɏЀ-ҁҊ-ԯ', N: '0-9' };

/**
 * A pattern of the rules. Sources are written with `String.raw` and matched against folded text, hence without a case
 * flag.
 */
export function rule(source: string, flags = 'u'): RegExp {
  let isInClass = false;
  const narrowed = source.replace(
    /\\p\{([LN])\}|\\.|[[\]]/gu,
    (token, kind: 'L' | 'N' | undefined) => {
      if (kind !== undefined) return isInClass ? KNOWN[kind] : `[${KNOWN[kind]}]`;
      if (token === '[') isInClass = true;
      if (token === ']') isInClass = false;
      return token;
    },
  );
  return new RegExp(narrowed, flags);
}

/** `\b` and `\w` know only ASCII letters, so the rules mark the edges of words themselves. */
const EDGE_LEFT = String.raw`(?<![\p{L}\p{N}])`;
const EDGE_RIGHT = String.raw`(?![\p{L}\p{N}])`;

/** A pattern for whole words: nothing that belongs to a word stands on either side. */
export function whole(source: string, flags = 'u'): RegExp {
  return rule(`${EDGE_LEFT}(?:${source})${EDGE_RIGHT}`, flags);
}

/** A pattern for words that begin so, whatever their ending: for inflected languages. */
export function stem(source: string, flags = 'u'): RegExp {
  return rule(`${EDGE_LEFT}(?:${source})`, flags);
}

/** The number a capture holds, `null` for none; a decimal comma is understood. */
export function captured(match: RegExpMatchArray | null, group: number): number | null {
  const text = match?.[group];
  if (text === undefined) return null;
  const value = Number(text.replace(',', '.'));
  return Number.isFinite(value) ? value : null;
}
