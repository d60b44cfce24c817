import { maskCredentials, maskValue } from '../credentials.ts';
import { cell } from '../output/markdown.ts';
import { jsonList, visible } from '../output/visible.ts';
import { count } from '../output/wording.ts';
import type { InventoryDiff, PropertyChange } from './diff.ts';

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

/** As `JSON.stringify` writes the whole difference. */
function* json({ changed, added, removed, unchanged }: InventoryDiff): Generator<string> {
  for (const [index, [name, list]] of Object.entries({ changed, added, removed }).entries()) {
    yield `${index === 0 ? '{' : ','}\n  ${JSON.stringify(name)}: `;
    yield* jsonList(masked(list), '  ');
  }
  yield `,\n  "unchanged": ${unchanged}\n}\n`;
}

function* masked(values: Iterable<unknown>): Generator {
  for (const value of values) yield maskValue(value);
}

/** One line for each property that changed, so that other tools find it by its record. */
function* text(diff: InventoryDiff): Generator<string> {
  for (const one of lines(diff)) yield `${visible(maskCredentials(one))}\n`;
}

function* lines(diff: InventoryDiff): Generator<string> {
  for (const { id, isWidened, properties } of diff.changed) {
    for (const change of properties) {
      const isWidening = isWidened && change.key === 'exposure';
      yield `${isWidening ? 'widened' : 'changed'} ${quoted(id)} ${describe(change)}`;
    }
  }
  for (const { id, name, exposure } of diff.added) {
    yield `added   ${quoted(id)} ${name} (${exposure})`;
  }
  for (const { id, name, exposure } of diff.removed) {
    yield `removed ${quoted(id)} ${name} (${exposure})`;
  }
  yield summary(diff);
}

function* markdown(diff: InventoryDiff): Generator<string> {
  let isEmpty = true;
  for (const [what, id, details] of rows(diff)) {
    if (isEmpty) yield '| | record | |\n| --- | --- | --- |\n';
    isEmpty = false;
    yield `| ${what} | ${cell(id)} | ${details.map(cell).join('<br>')} |\n`;
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

function describe({ key, before, after }: PropertyChange): string {
  if (before === undefined) return `${key}: ${written(after)} is new`;
  if (after === undefined) return `${key}: ${written(before)} is gone`;
  const [older, newer] = [written(before), written(after)];
  // What is not shown may be all that differs, and has to be said then.
  if (older === newer) return `${key}: ${newer}, with other credentials`;
  return `${key}: ${older} → ${newer}`;
}

function written(value: unknown): string {
  return maskCredentials(typeof value === 'string' ? value : JSON.stringify(value));
}

function quoted(id: string): string {
  return JSON.stringify(id);
}
