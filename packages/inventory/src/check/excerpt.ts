import type { Excerpt } from '../finding.ts';

// What is shown of a line on each side of a position, in UTF-16 code units.
const REACH = 60;

/** The part of the line around an offset of a text. It looks no further than it shows. */
export function excerptAt(text: string, offset: number): Excerpt {
  const before = wellFormed(text.slice(Math.max(0, offset - REACH), offset));
  const after = wellFormed(text.slice(offset, offset + REACH));
  const left = before.slice(before.lastIndexOf('\n') + 1);
  const [right = ''] = after.split(/\r?\n/, 1);
  return { text: left + right, column: Array.from(left).length + 1 };
}

/** Drops the halves of surrogate pairs that a cut left at the ends. */
function wellFormed(text: string): string {
  return text.replace(/^[\uDC00-\uDFFF]|[\uD800-\uDBFF]$/g, '');
}
