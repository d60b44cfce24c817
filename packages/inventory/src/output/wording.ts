import type { Finding } from '../finding.ts';
import type { FileResult } from './reporter.ts';

/** The record and the pointer of a finding, in brackets after a space; nothing without them. */
export function where({ recordId, pointer }: Finding): string {
  const parts = [];
  if (recordId !== null) parts.push(`record ${JSON.stringify(recordId)}`);
  if (pointer !== '') parts.push(pointer);
  return parts.length === 0 ? '' : ` (${parts.join(', ')})`;
}

/** One line that says how a file's validation ended. */
export function closingLine(result: FileResult): string {
  const { file, status, records, errors, warnings, isComplete } = result;
  if (status === 'unreadable') return `${file}: not readable`;
  const noted = warnings === 0 ? '' : `, ${count(warnings, 'warning')}`;
  const read = count(records, 'record');
  if (status === 'valid') return `${file}: ${read}, valid${noted}`;
  if (!isComplete) return `${file}: ${count(errors, 'error')}${noted}; stopped after ${read}`;
  return `${file}: ${count(errors, 'error')}${noted} in ${read}`;
}

/** A number with its noun in the singular or the plural. */
export function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}
