import { maskCredentials } from '../credentials.ts';
import type { Finding } from '../finding.ts';
import { quoted, shorten } from '../shorten.ts';
import type { FileResult } from './reporter.ts';

/** The record and the pointer of a finding, for people, in brackets after a space; nothing without them. */
export function where({ recordId, pointer }: Finding): string {
  const parts = [];
  if (recordId !== null) parts.push(`record ${quoted(recordId)}`);
  if (pointer !== '') parts.push(shortPointer(pointer));
  return parts.length === 0 ? '' : ` (${parts.join(', ')})`;
}

/** A finding without the credentials that the id of its record, or names of properties, may have. */
export function masked(finding: Finding): Finding {
  const { recordId, pointer } = finding;
  return {
    ...finding,
    recordId: recordId === null ? null : maskCredentials(recordId),
    pointer: maskCredentials(pointer),
  };
}

/** Each name in a pointer is shortened by itself, so that it still shows how deep it leads. */
function shortPointer(pointer: string): string {
  return shorten(pointer) === pointer ? pointer : pointer.split('/').map(shorten).join('/');
}

/** One line that says how a file's validation ended. */
export function closingLine(result: FileResult): string {
  const { file, status, records = 0, errors, warnings, isComplete } = result;
  if (status === 'unreadable') return `${file}: not readable`;
  const noted = warnings === 0 ? '' : `, ${count(warnings, 'warning')}`;
  const read = count(records, 'record');
  if (status === 'valid') return `${file}: ${read}, valid${noted}`;
  if (!isComplete) return `${file}: ${count(errors, 'error')}${noted}; stopped after ${read}`;
  return `${file}: ${count(errors, 'error')}${noted} in ${read}`;
}

/** A number with its noun in the singular or the plural. */
export function count(number: number, noun: string, nouns = `${noun}s`): string {
  return `${number} ${number === 1 ? noun : nouns}`;
}
