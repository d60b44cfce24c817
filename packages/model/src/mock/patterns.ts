/**
 * `\b` and `\w` know only ASCII letters, so the rules mark the edges of words themselves. Sources are
 * written with `String.raw` and matched against folded text, hence without a case flag.
 */
const EDGE_LEFT = String.raw`(?<![\p{L}\p{N}])`;
const EDGE_RIGHT = String.raw`(?![\p{L}\p{N}])`;

/** A pattern for whole words: nothing that belongs to a word stands on either side. */
export function whole(source: string, flags = 'u'): RegExp {
  return new RegExp(`${EDGE_LEFT}(?:${source})${EDGE_RIGHT}`, flags);
}

/** A pattern for words that begin so, whatever their ending: for inflected languages. */
export function stem(source: string, flags = 'u'): RegExp {
  return new RegExp(`${EDGE_LEFT}(?:${source})`, flags);
}

/** The number a capture holds, `null` for none; a decimal comma is understood. */
export function captured(match: RegExpMatchArray | null, group: number): number | null {
  const text = match?.[group];
  if (text === undefined) return null;
  const value = Number(text.replace(',', '.'));
  return Number.isFinite(value) ? value : null;
}
