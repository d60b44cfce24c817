import { figure, spread, table } from './markdown.ts';
import { ratio } from './statistics.ts';

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
