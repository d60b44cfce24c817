import { type Goal, formatGoals, figure, spread, table } from '../report.ts';
import type { Options } from '../options.ts';
import { summarize } from '../statistics.ts';
import type { Report } from '../suite.ts';
import type { JobFigures } from './jobs.ts';
import type { Counts } from './servers/model.ts';

export type Sample = JobFigures & {
  variant: string;
  round: number;
  payloads: 'new' | 'unchanged';
  /** Number of images of each listing, and number of requests at the host. */
  images: number;
  fetched: number;
  /** Requests to the model server; undefined for the mock. */
  requests: Counts | undefined;
};

/** One call reads the text, and one embeds it; each image needs another call. */
const MAX_CALLS = 2;
const MIN_BUSY_SHARE = 0.95;

/** Returns the results as Markdown, and the failed checks. */
export function formatReport(samples: readonly Sample[], { rounds, smoke }: Options): Report {
  const failures = samples.flatMap(findFailures);
  const text = [
    '## Jobs',
    `Rounds: ${rounds}. Each worker takes new listings from a full queue, then the same ones again. Medians, ` +
      'with the least and the most. `busy` is the share of the slots’ time that was spent on jobs while ' +
      'there was work for all.' +
      (smoke ? ' This was a smoke run: too short to say anything about speed.' : ''),
    jobsTable(samples),
    '## Goals',
    formatGoals(goals(samples, smoke)),
  ];
  return { text: text.join('\n\n'), failures };
}

/** Returns wrong counts, which do not depend on the machine. */
function findFailures(sample: Sample): string[] {
  const { variant, payloads, completed, others, images, fetched, requests } = sample;
  const perListing = callsPerListing(sample);
  const isNew = payloads === 'new';
  const most = isNew ? MAX_CALLS + images : 0;
  const toFetch = isNew ? images * (completed + others) : 0;
  const wrong = [
    ...(others === 0 ? [] : [`${others} jobs did not complete`]),
    ...(perListing <= most ? [] : [`${perListing} calls for each listing, ${most} expected`]),
    ...(fetched === toFetch ? [] : [`${fetched} images were fetched, ${toFetch} expected`]),
    ...(requests === undefined || isNew || requests.chat + requests.embed === 0
      ? []
      : ['unchanged listings came to the model server']),
  ];
  return wrong.map((failure) => `${variant}, ${payloads}: ${failure}`);
}

function callsPerListing({ calls, completed, others }: Sample): number {
  return calls / (completed + others);
}

function groups(samples: readonly Sample[]): [string, Sample[]][] {
  const grouped = Map.groupBy(samples, ({ variant, payloads }) => `${variant}, ${payloads}`);
  return [...grouped];
}

function jobsTable(samples: readonly Sample[]): string {
  const head = ['', 'jobs/s', 'busy %', 'calls/listing', 'requests/listing', 'texts at once'];
  return table(
    head,
    groups(samples).map(([name, own]) => [
      name,
      spread(summarize(own.map(({ completed, seconds }) => completed / seconds)), 1),
      spread(summarize(own.map(({ busy }) => 100 * busy)), 1),
      figure(Math.max(...own.map(callsPerListing)), 2),
      requestsText(own),
      figure(Math.max(...own.map(({ requests }) => requests?.mostTexts ?? 1))),
    ]),
  );
}

/** Returns the median of requests per listing, which may share an embedding request. */
function requestsText(samples: readonly Sample[]): string {
  const each = samples.flatMap(({ requests, completed }) =>
    requests === undefined ? [] : [(requests.chat + requests.embed) / completed],
  );
  return each.length === 0 ? '' : figure(summarize(each).median, 2);
}

function goals(samples: readonly Sample[], smoke: boolean): Goal[] {
  const of = (kind: Sample['payloads']) => samples.filter(({ payloads }) => payloads === kind);
  const mostNew = Math.max(...of('new').map((one) => callsPerListing(one) - one.images));
  const mostUnchanged = Math.max(...of('unchanged').map(callsPerListing));
  return [
    {
      goal: `at most ${MAX_CALLS} calls for a new listing, plus one for each image`,
      measured: figure(mostNew, 2),
      met: mostNew <= MAX_CALLS,
    },
    {
      goal: 'no call for an unchanged listing',
      measured: figure(mostUnchanged, 2),
      met: mostUnchanged === 0,
    },
    // A smoke run is too short to keep its slots busy.
    ...(smoke ? [] : groups(samples).map(([name, own]) => busyGoal(name, own))),
  ];
}

function busyGoal(name: string, samples: readonly Sample[]): Goal {
  const percent = summarize(samples.map(({ busy }) => 100 * busy));
  return {
    goal: `${name}: busy at least ${100 * MIN_BUSY_SHARE} %`,
    measured: spread(percent, 1),
    met: percent.median >= 100 * MIN_BUSY_SHARE,
  };
}
