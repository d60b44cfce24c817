/**
 * One summary out of several: all texts stay, the older ones first, with a blank line between them. A
 * text that stands in another one already is not told twice. Specification 000, Legacy data.
 * @param texts The older ones first.
 */
export function mergeSummaries(texts: readonly string[]): string {
  let merged: string[] = [];
  for (const text of texts.map((one) => one.trim())) {
    if (merged.some((other) => other.includes(text))) continue;
    merged = [...merged.filter((other) => !text.includes(other)), text];
  }
  return merged.join('\n\n');
}
