import { type Goal, formatGoals, formatNumber, formatRange, formatTable } from '../report.ts';
import type { Options } from '../options.ts';
import { summarize } from '../statistics.ts';
import type { Report } from '../suite.ts';
import type { JobResults } from './jobs.ts';
import type { Counts } from './servers/model.ts';

export type Sample = JobResults & {
  variant: string;
  round: number;
  payloads: 'new' | 'unchanged';
  /** Number of images per listing. */
  images: number;
  /** Number of requests to the image host. */
  imageRequestCount: number;
  /** Requests to the model server; undefined for the mock. */
  requests: Counts | undefined;
};

/**
 * Maximum number of model calls per new listing: one extracts the fields, and one embeds the text. Each image adds one.
 */
const MAX_CALLS = 2;
const MIN_BUSY_SHARE = 0.95;

/** Returns the results as Markdown, and the failed checks. */
export function formatReport(samples: readonly Sample[], { rounds, isSmokeRun }: Options): Report {
  const failures = samples.flatMap(findFailures);
  const text = [
    '## Jobs',
    `Rounds: ${rounds}. Each worker processes new listings from a full queue, then the same listings again. Medians, ` +
      'with the minimum and maximum. `busy` is the share of the slots’ time spent on jobs while every slot ' +
      'had work.' +
      (isSmokeRun ? ' This was a smoke run, which is too short to measure speed.' : ''),
    formatJobsTable(samples),
    '## Goals',
    formatGoals(evaluateGoals(samples, isSmokeRun)),
  ];
  return { text: text.join('\n\n'), failures };
}

/** Returns wrong counts, which count as failures on any machine. */
function findFailures(sample: Sample): string[] {
  const {
    variant,
    payloads,
    completedCount,
    incompleteCount,
    images,
    imageRequestCount,
    requests,
  } = sample;
  const perListing = computeCallsPerListing(sample);
  const isNew = payloads === 'new';
  const maxCalls = isNew ? MAX_CALLS + images : 0;
  const expectedRequests = isNew ? images * (completedCount + incompleteCount) : 0;
  const wrong = [
    ...(incompleteCount === 0 ? [] : [`${incompleteCount} jobs did not complete`]),
    ...(perListing <= maxCalls
      ? []
      : [`${perListing} calls per listing, expected at most ${maxCalls}`]),
    ...(imageRequestCount === expectedRequests
      ? []
      : [`${imageRequestCount} image requests, expected ${expectedRequests}`]),
    ...(requests === undefined || isNew || requests.chat + requests.embed === 0
      ? []
      : ['the model server received unchanged listings']),
  ];
  return wrong.map((failure) => `${variant}, ${payloads}: ${failure}`);
}

function computeCallsPerListing({ calls, completedCount, incompleteCount }: Sample): number {
  return calls / (completedCount + incompleteCount);
}

function groupByVariant(samples: readonly Sample[]): [string, Sample[]][] {
  const grouped = Map.groupBy(samples, ({ variant, payloads }) => `${variant}, ${payloads}`);
  return [...grouped];
}

function formatJobsTable(samples: readonly Sample[]): string {
  const head = ['', 'jobs/s', 'busy %', 'calls/listing', 'requests/listing', 'max texts/request'];
  return formatTable(
    head,
    groupByVariant(samples).map(([name, groupSamples]) => [
      name,
      formatRange(
        summarize(groupSamples.map(({ completedCount, seconds }) => completedCount / seconds)),
        1,
      ),
      formatRange(summarize(groupSamples.map(({ busy }) => 100 * busy)), 1),
      formatNumber(Math.max(...groupSamples.map(computeCallsPerListing)), 2),
      formatRequests(groupSamples),
      formatNumber(Math.max(...groupSamples.map(({ requests }) => requests?.maxTextCount ?? 1))),
    ]),
  );
}

/**
 * Returns the median number of model requests per listing, or an empty string for the mock. Listings may share an
 * embedding request.
 */
function formatRequests(samples: readonly Sample[]): string {
  const ratios = samples.flatMap(({ requests, completedCount }) =>
    requests === undefined ? [] : [(requests.chat + requests.embed) / completedCount],
  );
  return ratios.length === 0 ? '' : formatNumber(summarize(ratios).median, 2);
}

function evaluateGoals(samples: readonly Sample[], isSmokeRun: boolean): Goal[] {
  const selectSamples = (kind: Sample['payloads']) =>
    samples.filter(({ payloads }) => payloads === kind);
  const maxNewCalls = Math.max(
    ...selectSamples('new').map((sample) => computeCallsPerListing(sample) - sample.images),
  );
  const maxUnchangedCalls = Math.max(...selectSamples('unchanged').map(computeCallsPerListing));
  return [
    {
      goal: `at most ${MAX_CALLS} calls for a new listing, plus one for each image`,
      measured: formatNumber(maxNewCalls, 2),
      isMet: maxNewCalls <= MAX_CALLS,
    },
    {
      goal: 'no call for an unchanged listing',
      measured: formatNumber(maxUnchangedCalls, 2),
      isMet: maxUnchangedCalls === 0,
    },
    // A smoke run is too short to keep its slots busy.
    ...(isSmokeRun
      ? []
      : groupByVariant(samples).map(([name, groupSamples]) => createBusyGoal(name, groupSamples))),
  ];
}

function createBusyGoal(name: string, samples: readonly Sample[]): Goal {
  const percent = summarize(samples.map(({ busy }) => 100 * busy));
  return {
    goal: `${name}: busy at least ${100 * MIN_BUSY_SHARE} %`,
    measured: formatRange(percent, 1),
    isMet: percent.median >= 100 * MIN_BUSY_SHARE,
  };
}
