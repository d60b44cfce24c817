import { type Goal, evaluateRatio, formatNumber, formatRange } from '../report.ts';
import { summarize } from '../statistics.ts';
import type { Context, Report } from '../suite.ts';
import { type DrainSample, computeJobRate, measureDrain } from './drain.ts';
import { type Fairness, measureFairness } from './fairness.ts';
import { measurePickup, type PickupSample } from './pickup.ts';
import { formatReport } from './report.ts';
import {
  collector,
  graphileWorker,
  graphileWorkerBatching,
  graphileWorkerLargeBatches,
  type Variant,
} from './variants.ts';

/** Minimum ratios of the collector's job rate to each peer's. */
const MIN_RATIOS: readonly { peer: Variant; atLeast: number }[] = [
  { peer: graphileWorker, atLeast: 1.5 },
  { peer: graphileWorkerBatching, atLeast: 1 },
  { peer: graphileWorkerLargeBatches, atLeast: 1 },
];

const MAX_PICKUP_MS = { p50: 10, p99: 50 };

/** Maximum delay of a single payload while another source has a backlog. */
const MAX_WAIT_MS = 3000;

/**
 * Measures the rate and pickup delay of jobs, and the delay that the backlog of one source causes for another source.
 */
export async function measureQueue(context: Context): Promise<Report> {
  const { options, results } = context;
  const { fairness, failures: fairnessFailures } = await measureFairness(context);
  const { pickups, failures: pickupFailures } = await measurePickup(context);
  const { samples, failures: drainFailures } = await measureDrain(context);
  const goals = options.isSmokeRun
    ? []
    : [
        ...evaluateSpeed(samples),
        ...evaluatePickup(pickups.get(collector.name) ?? []),
        evaluateFairness(fairness),
      ];
  for (const goal of goals) await results.keep('goal', goal);
  return {
    text: formatReport({ options, samples, pickups, fairness, goals }),
    failures: [...fairnessFailures, ...pickupFailures, ...drainFailures],
  };
}

function evaluateSpeed(samples: ReadonlyMap<string, readonly DrainSample[]>): Goal[] {
  const getSeries = ({ name }: Variant) =>
    [name, (samples.get(name) ?? []).map(computeJobRate)] as const;
  return MIN_RATIOS.map(({ peer, atLeast }) =>
    evaluateRatio(getSeries(collector), getSeries(peer), atLeast),
  );
}

function evaluatePickup(samples: readonly PickupSample[]): Goal[] {
  return (['p50', 'p99'] as const).map((share) => {
    const delays = summarize(samples.map((sample) => sample[share]));
    return {
      goal: `pickup: ${share} at most ${MAX_PICKUP_MS[share]} ms`,
      measured: `${formatRange(delays, 1)} ms`,
      isMet: delays.median <= MAX_PICKUP_MS[share],
    };
  });
}

function evaluateFairness({ backlog, waitMs }: Fairness): Goal {
  return {
    goal: `with a backlog of ${formatNumber(backlog)} payloads of another source: started within ${MAX_WAIT_MS / 1000} s`,
    measured: `${formatNumber(waitMs.max, 1)} ms at most`,
    isMet: waitMs.max <= MAX_WAIT_MS,
  };
}
