import { figure, spread, table } from './markdown.ts';
import { ratio } from './statistics.ts';

/** Something to reach, and how far it was. */
export type Goal = { goal: string; measured: string; met: boolean };

/** Judges one series against another, round by round. */
export function ratioGoal(
  [name, values]: readonly [string, readonly number[]],
  [peer, others]: readonly [string, readonly number[]],
  atLeast: number,
): Goal {
  const found = ratio(values, others);
  const goal = goalText(name, peer, atLeast);
  return { goal, measured: spread(found, 2), met: found.median >= atLeast };
}

/** The same without the peer. A goal that was not measured is not met. */
export function unmeasuredGoal(name: string, peer: string, atLeast: number): Goal {
  const goal = goalText(name, peer, atLeast);
  return { goal, measured: `not measured: ${peer} is not here`, met: false };
}

function goalText(name: string, peer: string, atLeast: number): string {
  return `${name}: at least ${figure(atLeast, 1)} × ${peer}`;
}

/** The goals for readers. */
export function goalsTable(goals: readonly Goal[]): string {
  return table(
    ['', 'measured', ''],
    goals.map(({ goal, measured, met }) => [goal, measured, met ? 'met' : 'not met']),
  );
}
