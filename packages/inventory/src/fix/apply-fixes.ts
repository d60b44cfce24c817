import type { Finding, Fix, Position } from '../finding.ts';

type PlacedFix = Position & { fix: Fix };

/**
 * Applies the fixes of findings to the text that they were found in. A place at which something else
 * stands by now is left as it is.
 * @returns The text, and how many fixes were applied.
 */
export function applyFixes(
  text: string,
  findings: readonly Finding[],
): { text: string; applied: number } {
  const fixes = findings
    .flatMap(({ line, column, fix }): PlacedFix[] =>
      fix === undefined ? [] : [{ line, column, fix }],
    )
    .toSorted((a, b) => a.line - b.line || a.column - b.column);
  const parts: string[] = [];
  let from = 0;
  let applied = 0;
  let line = 1;
  let lineStart = text.startsWith('\uFEFF') ? 1 : 0;
  for (const { fix, ...place } of fixes) {
    while (line < place.line) {
      lineStart = text.indexOf('\n', lineStart) + 1;
      line += 1;
    }
    const at = offsetOf(text, lineStart, place.column);
    // Two findings may mend one place: the first one has.
    if (at < from || !text.startsWith(fix.written, at)) continue;
    parts.push(text.slice(from, at), fix.replacement);
    from = at + fix.written.length;
    applied += 1;
  }
  parts.push(text.slice(from));
  return { text: parts.join(''), applied };
}

/** Columns count code points, offsets UTF-16 code units. */
function offsetOf(text: string, lineStart: number, column: number): number {
  let offset = lineStart;
  for (let at = 1; at < column; at += 1) {
    offset += (text.codePointAt(offset) ?? 0) > 0xffff ? 2 : 1;
  }
  return offset;
}
