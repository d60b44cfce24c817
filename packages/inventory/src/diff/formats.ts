import { cell } from '../output/markdown.ts';
import { jsonText, visible } from '../output/visible.ts';
import { count } from '../output/wording.ts';
import type { InventoryDiff, PropertyChange } from './diff.ts';

/** How a difference can be printed. */
export const DIFF_FORMATS = ['text', 'json', 'md'] as const;
export type DiffFormat = (typeof DIFF_FORMATS)[number];

/** Prints a difference for people at a terminal, for programs, or for a pull request. */
export function formatDiff(diff: InventoryDiff, format: DiffFormat): string {
  if (format === 'json') return `${jsonText(diff, 2)}\n`;
  return format === 'md' ? markdown(diff) : text(diff);
}

/** One line for each property that changed, so that other tools find it by its record. */
function text(diff: InventoryDiff): string {
  const lines = [
    ...diff.changed.flatMap(({ id, isWidened, properties }) =>
      properties.map((change) => {
        const isWidening = isWidened && change.key === 'exposure';
        return `${isWidening ? 'widened' : 'changed'} ${quoted(id)} ${describe(change)}`;
      }),
    ),
    ...diff.added.map(({ id, name, exposure }) => `added   ${quoted(id)} ${name} (${exposure})`),
    ...diff.removed.map(({ id, name, exposure }) => `removed ${quoted(id)} ${name} (${exposure})`),
    summary(diff),
  ];
  return lines.map((line) => `${visible(line)}\n`).join('');
}

function markdown(diff: InventoryDiff): string {
  const { changed, added, removed } = diff;
  const rows = [
    ...changed.map(({ id, isWidened, properties }) => [
      isWidened ? '**exposure widened**' : 'changed',
      id,
      properties.map(describe),
    ]),
    ...added.map(({ id, name, exposure }) => ['added', id, [`${name} (${exposure})`]]),
    ...removed.map(({ id, name, exposure }) => ['removed', id, [`${name} (${exposure})`]]),
  ] as [string, string, string[]][];
  const table = rows.map(
    ([what, id, details]) => `| ${what} | ${cell(id)} | ${details.map(cell).join('<br>')} |\n`,
  );
  const head = rows.length === 0 ? '' : '| | record | |\n| --- | --- | --- |\n';
  return `${head}${table.join('')}${rows.length === 0 ? '' : '\n'}${summary(diff)}\n`;
}

function summary({ changed, added, removed, unchanged }: InventoryDiff): string {
  const widened = changed.filter(({ isWidened }) => isWidened).length;
  const noted = widened === 0 ? '' : ` (${widened} with wider exposure)`;
  return `${count(changed.length, 'record')} changed${noted}, ${added.length} added, ${removed.length} removed, ${unchanged} the same`;
}

function describe({ key, before, after }: PropertyChange): string {
  if (before === undefined) return `${key}: ${written(after)} is new`;
  if (after === undefined) return `${key}: ${written(before)} is gone`;
  return `${key}: ${written(before)} → ${written(after)}`;
}

function written(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function quoted(id: string): string {
  return JSON.stringify(id);
}
