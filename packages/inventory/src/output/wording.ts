import type { Finding } from '../finding.ts';
import { quotedId, shorten } from '../shorten.ts';
import type { FileResult } from './reporter.ts';

/** The record and the pointer of a finding, for people, in brackets after a space; nothing without them. */
export function where({ recordId, pointer }: Finding): string {
  const parts = [];
  if (recordId !== null) parts.push(`record ${quotedId(recordId)}`);
  if (pointer !== '') parts.push(shortPointer(pointer));
  return parts.length === 0 ? '' : ` (${parts.join(', ')})`;
}

/**
 * The same function, which remembers its last answer: an id or a pointer may be large, and a thousand findings of
 * one record have it.
 */
export function remembering(mask: (text: string) => string): (text: string) => string {
  let last: { text: string; shown: string } | undefined;
  return (text) => {
    if (last?.text !== text) last = { text, shown: mask(text) };
    return last.shown;
  };
}

/** Each name in a pointer is shortened by itself, so that it still shows how deep it leads. */
function shortPointer(pointer: string): string {
  return shorten(pointer) === pointer
    ? pointer
    : pointer
        .split('/')
        .map((name) => shorten(name))
        .join('/');
}

/** One line that says how a file's validation ended. */
export function closingLine(result: FileResult): string {
  const { file, status, records = 0, errors, warnings, isComplete } = result;
  if (status === 'unreadable') return `${file}: not readable`;
  const noted = warnings === 0 ? '' : `, ${count(warnings, 'warning')}`;
  const read = count(records, 'record');
  const rest = notShown(result)
    .map((part) => `, ${part}`)
    .join('');
  if (status === 'valid') {
    const verdict = result.hidden === undefined ? 'valid' : 'no new errors';
    return `${file}: ${read}, ${verdict}${noted}${rest}`;
  }
  const of = isComplete ? ' in ' : '; stopped after ';
  return `${file}: ${count(errors, 'error')}${noted}${of}${read}${rest}`;
}

/** How many findings of a file are not shown, and why. */
export function notShown({ hidden = 0, silenced = 0 }: FileResult): string[] {
  return [
    ...(hidden === 0 ? [] : [`${count(hidden, 'known finding')} hidden`]),
    ...(silenced === 0 ? [] : [`${count(silenced, 'finding')} silenced`]),
  ];
}

/** A number with its noun in the singular or the plural. */
export function count(number: number, noun: string, nouns = `${noun}s`): string {
  return `${number} ${number === 1 ? noun : nouns}`;
}
