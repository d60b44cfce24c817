import { ratio, type Summary } from './statistics.ts';

/** Goal and the measured result. */
export type Goal = { goal: string; measured: string; met: boolean };

/** Judges one series against another, round by round. */
export function judgeRatio(
  [name, values]: readonly [string, readonly number[]],
  [peer, others]: readonly [string, readonly number[]],
  atLeast: number,
): Goal {
  const found = ratio(values, others);
  const goal = formatGoal(name, peer, atLeast);
  return { goal, measured: spread(found, 2), met: found.median >= atLeast };
}

/** Creates a missed goal for a peer that is not installed. */
export function createUnmeasuredGoal(name: string, peer: string, atLeast: number): Goal {
  const goal = formatGoal(name, peer, atLeast);
  return { goal, measured: `not measured: ${peer} is not here`, met: false };
}

function formatGoal(name: string, peer: string, atLeast: number): string {
  return `${name}: at least ${figure(atLeast, 1)} × ${peer}`;
}

/** Formats the goals as a Markdown table. */
export function formatGoals(goals: readonly Goal[]): string {
  return table(
    ['', 'measured', ''],
    goals.map(({ goal, measured, met }) => [goal, measured, met ? 'met' : 'not met']),
  );
}

/** Formats a Markdown table with right-aligned columns after the first. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) =>
    Math.max(3, title.length, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, column) => pad(cell, widths[column] ?? 0, column)).join(' | ')} |`;
  const rule = widths.map((width, column) => (column === 0 ? '-'.repeat(width) : rightRule(width)));
  return [line(head), line(rule), ...rows.map(line)].join('\n');
}

function pad(cell: string, width: number, column: number): string {
  return column === 0 ? cell.padEnd(width) : cell.padStart(width);
}

function rightRule(width: number): string {
  return `${'-'.repeat(width - 1)}:`;
}

/** Formats a number with separated thousands and a number of decimals. */
export function figure(value: number, decimals = 0): string {
  return value.toLocaleString('en-US', {
    minimumFractionDigits: decimals,
    maximumFractionDigits: decimals,
  });
}

/** Formats a median and its range: `1,234 (1,100–1,300)`. */
export function spread({ median, min, max }: Summary, decimals = 0): string {
  return `${figure(median, decimals)} (${figure(min, decimals)}–${figure(max, decimals)})`;
}
