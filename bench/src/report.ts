import { ratio, type Summary } from './statistics.ts';

/** Goal with its measured result. */
export type Goal = { goal: string; measured: string; isMet: boolean };

/** Evaluates the goal that one series is at least `atLeast` times another, compared within each round. */
export function evaluateRatio(
  [name, values]: readonly [string, readonly number[]],
  [peer, peerValues]: readonly [string, readonly number[]],
  atLeast: number,
): Goal {
  const measuredRatio = ratio(values, peerValues);
  const goal = formatGoal(name, peer, atLeast);
  return { goal, measured: formatRange(measuredRatio, 2), isMet: measuredRatio.median >= atLeast };
}

/** Returns an unmet goal for a peer that is not installed. */
export function createUnmeasuredGoal(name: string, peer: string, atLeast: number): Goal {
  const goal = formatGoal(name, peer, atLeast);
  return { goal, measured: `not measured: ${peer} is not installed`, isMet: false };
}

function formatGoal(name: string, peer: string, atLeast: number): string {
  return `${name}: at least ${formatNumber(atLeast, 1)} × ${peer}`;
}

/** Returns the goals as a Markdown table. */
export function formatGoals(goals: readonly Goal[]): string {
  return formatTable(
    ['', 'measured', ''],
    goals.map(({ goal, measured, isMet }) => [goal, measured, isMet ? 'met' : 'not met']),
  );
}

/** Returns a Markdown table whose columns after the first are right-aligned. */
export function formatTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) =>
    Math.max(3, title.length, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, column) => pad(cell, widths[column] ?? 0, column)).join(' | ')} |`;
  const separators = widths.map((width, column) =>
    column === 0 ? '-'.repeat(width) : createRightSeparator(width),
  );
  return [line(head), line(separators), ...rows.map(line)].join('\n');
}

function pad(cell: string, width: number, column: number): string {
  return column === 0 ? cell.padEnd(width) : cell.padStart(width);
}

function createRightSeparator(width: number): string {
  return `${'-'.repeat(width - 1)}:`;
}

/** Returns a number as text with thousands separators and a fixed number of decimals. */
export function formatNumber(value: number, decimals = 0): string {
  return value.toLocaleString('en-US', {
    minimumFractionDigits: decimals,
    maximumFractionDigits: decimals,
  });
}

/** Returns a median and its range as text: `1,234 (1,100–1,300)`. */
export function formatRange({ median, min, max }: Summary, decimals = 0): string {
  return `${formatNumber(median, decimals)} (${formatNumber(min, decimals)}–${formatNumber(max, decimals)})`;
}
