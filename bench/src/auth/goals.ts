import type { Cost } from '../load/cost.ts';
import { rates, type Sample } from '../load/rounds.ts';
import type { Variant } from '../load/variant.ts';
import { figure, spread } from '../markdown.ts';
import { ratio } from '../statistics.ts';
import { constant } from './constant.ts';
import type { Expiries } from './expiries.ts';
import { aged, betterAuthJoins, betterAuthPlain, fresh } from './variants.ts';

/** Goal and the measured result. */
export type Goal = { goal: string; measured: string; met: boolean };

/** Required requests a second of the assistant with user data up to 30 s old. */
const SPEED: readonly { peer: Variant; atLeast: number }[] = [
  { peer: betterAuthPlain, atLeast: 2 },
  { peer: betterAuthJoins, atLeast: 2 },
  { peer: constant, atLeast: 0.5 },
];

const MAX_STATEMENTS = 2;

/** Judges the speed, which depends on the machine as well. */
export function judgeSpeed(samples: ReadonlyMap<string, readonly Sample[]>): Goal[] {
  return SPEED.flatMap(({ peer, atLeast }) =>
    aged.map(({ name }) => {
      const found = ratio(rates(samples, name), rates(samples, peer.name));
      return {
        goal: `${name}: at least ${figure(atLeast, 1)} × ${peer.name}`,
        measured: spread(found, 2),
        met: found.median >= atLeast,
      };
    }),
  );
}

/** Judges what was counted, which has to be the same on any machine. */
export function judgeCounts(costs: readonly Cost[], expiries: readonly Expiries[]): Goal[] {
  const assistants = new Set([...fresh, ...aged].map(({ name }) => name));
  const most = Math.max(
    ...costs.filter(({ variant }) => assistants.has(variant)).map(({ statements }) => statements),
  );
  return [
    {
      goal: `assistant: at most ${MAX_STATEMENTS} statements where nothing changed`,
      measured: figure(most),
      met: most <= MAX_STATEMENTS,
    },
    ...expiries.flatMap(({ providerMs, redemptions, refused }) => [
      {
        goal: `expired tokens, provider ${providerMs} ms: redeemed once`,
        measured: [...new Set(redemptions)].join(', '),
        met: redemptions.every((count) => count === 1),
      },
      {
        goal: `expired tokens, provider ${providerMs} ms: none rejected`,
        measured: figure(refused),
        met: refused === 0,
      },
    ]),
  ];
}
