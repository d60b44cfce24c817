/**
 * Where a quote ends, in which a backslash takes the next character with it: the index of its last character, -1
 * for one that is not closed. An expression would keep a way back for each character, and some have millions.
 * @param from The index after the mark that opens it.
 */
export function quoteEnd(source: string, from: number, mark: string): number {
  for (let index = from; index < source.length; index += 1) {
    if (source[index] === '\\') index += 1;
    else if (source[index] === mark) return index;
  }
  return -1;
}

/** How many lines end in a text. */
export function countNewlines(text: string): number {
  let count = 0;
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) count += 1;
  return count;
}
