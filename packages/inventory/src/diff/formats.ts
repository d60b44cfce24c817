import { maskCredentials, maskId, maskRecord, maskValue } from '../credentials.ts';
import { cell, idCell } from '../output/markdown.ts';
import { jsonList, visible } from '../output/visible.ts';
import { count } from '../output/wording.ts';
import type { InventoryDiff, PropertyChange, RecordChange } from './diff.ts';

/** How a difference can be printed. */
export const DIFF_FORMATS = ['text', 'json', 'md'] as const;
export type DiffFormat = (typeof DIFF_FORMATS)[number];

/**
 * Prints a difference for people at a terminal, for programs, or for a pull request, piece by piece. Credentials
 * in addresses are masked.
 */
export function formatDiff(diff: InventoryDiff, format: DiffFormat): Iterable<string> {
  if (format === 'json') return json(diff);
  return format === 'md' ? markdown(diff) : text(diff);
}

/** As `JSON.stringify` writes the whole difference; `withOtherCredentials` marks what is masked and differs. */
function* json({ changed, added, removed, unchanged }: InventoryDiff): Generator<string> {
  yield '{\n  "changed": ';
  yield* jsonList(shown(changed, shownChange), '  ');
  yield ',\n  "added": ';
  yield* jsonList(shown(added, maskRecord), '  ');
  yield ',\n  "removed": ';
  yield* jsonList(shown(removed, maskRecord), '  ');
  yield `,\n  "unchanged": ${unchanged}\n}\n`;
}

function* shown<T>(values: Iterable<T>, show: (value: T) => unknown): Generator {
  for (const value of values) yield show(value);
}

function shownChange({ id, isWidened, properties }: RecordChange): unknown {
  return {
    id: maskId(id),
    isWidened,
    properties: properties.map((change) => ({
      key: maskCredentials(change.key),
      before: maskValue(change.before),
      after: maskValue(change.after),
      ...(hasOtherCredentials(change) && { withOtherCredentials: true }),
    })),
  };
}

/** Whether what is not shown is all that differs, which has to be said then. */
function hasOtherCredentials({ before, after }: PropertyChange): boolean {
  const isMasked = JSON.stringify(maskValue(after)) !== JSON.stringify(after);
  return isMasked && JSON.stringify(maskValue(before)) === JSON.stringify(maskValue(after));
}

/** One line for each property that changed, so that other tools find it by its record. */
function* text(diff: InventoryDiff): Generator<string> {
  for (const one of lines(diff)) yield `${visible(one)}\n`;
}

function* lines(diff: InventoryDiff): Generator<string> {
  for (const { id, isWidened, properties } of diff.changed) {
    for (const change of properties) {
      const isWidening = isWidened && change.key === 'exposure';
      yield `${isWidening ? 'widened' : 'changed'} ${quoted(id)} ${describe(change)}`;
    }
  }
  for (const { id, name, exposure } of diff.added) {
    yield `added   ${quoted(id)} ${maskCredentials(name)} (${exposure})`;
  }
  for (const { id, name, exposure } of diff.removed) {
    yield `removed ${quoted(id)} ${maskCredentials(name)} (${exposure})`;
  }
  yield summary(diff);
}

function* markdown(diff: InventoryDiff): Generator<string> {
  let isEmpty = true;
  for (const [what, id, details] of rows(diff)) {
    if (isEmpty) yield '| | record | |\n| --- | --- | --- |\n';
    isEmpty = false;
    yield `| ${what} | ${idCell(id)} | ${details.map(cell).join('<br>')} |\n`;
  }
  yield `${isEmpty ? '' : '\n'}${summary(diff)}\n`;
}

function* rows({ changed, added, removed }: InventoryDiff): Generator<[string, string, string[]]> {
  for (const { id, isWidened, properties } of changed) {
    yield [isWidened ? '**exposure widened**' : 'changed', id, properties.map(describe)];
  }
  for (const { id, name, exposure } of added) yield ['added', id, [`${name} (${exposure})`]];
  for (const { id, name, exposure } of removed) yield ['removed', id, [`${name} (${exposure})`]];
}

function summary({ changed, added, removed, unchanged }: InventoryDiff): string {
  const widened = changed.filter(({ isWidened }) => isWidened).length;
  const noted = widened === 0 ? '' : ` (${widened} with wider exposure)`;
  return `${count(changed.length, 'record')} changed${noted}, ${added.length} added, ${removed.length} removed, ${unchanged} the same`;
}

function describe(change: PropertyChange): string {
  const { before, after } = change;
  const key = maskCredentials(change.key);
  if (before === undefined) return `${key}: ${written(after)} is new`;
  if (after === undefined) return `${key}: ${written(before)} is gone`;
  if (hasOtherCredentials(change)) return `${key}: ${written(after)}, with other credentials`;
  const [older, newer] = [written(before), written(after)];
  if (older !== newer) return `${key}: ${older} → ${newer}`;
  // A text that reads as another value does, such as "1" for 1.
  return `${key}: ${asJson(before)} → ${asJson(after)}`;
}

function written(value: unknown): string {
  return typeof value === 'string' ? maskCredentials(value) : asJson(value);
}

function asJson(value: unknown): string {
  return JSON.stringify(maskValue(value));
}

function quoted(id: string): string {
  return JSON.stringify(maskId(id));
}
