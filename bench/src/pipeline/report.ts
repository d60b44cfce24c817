import { figure, spread, table } from '../markdown.ts';
import type { Options } from '../options.ts';
import { summarize } from '../statistics.ts';
import type { Report } from '../suite.ts';
import type { Sample } from './pipeline.ts';

const MOST_CALLS = 2;
const LEAST_BUSY = 0.95;

/** What was measured, as Markdown, and what has to hold on any machine and did not. */
export function reportText(samples: readonly Sample[], { rounds, smoke }: Options): Report {
  const failures = samples.flatMap(findFailures);
  const text = [
    '## Jobs',
    `Rounds: ${rounds}. Each worker takes new listings from a full queue, then the same ones again. Medians, ` +
      'with the least and the most. `busy` is the share of the slots’ time that was spent on jobs while ' +
      'there was work for all.' +
      (smoke ? ' This was a smoke run: too short to say anything about speed.' : ''),
    jobsTable(samples),
    '## Goals',
    goalsTable(samples, smoke),
  ];
  return { text: text.join('\n\n'), failures };
}

/** Counts are right on any machine, or something is wrong. */
function findFailures(sample: Sample): string[] {
  const { variant, payloads, others, requests } = sample;
  const perListing = callsPerListing(sample);
  const most = payloads === 'new' ? MOST_CALLS : 0;
  const wrong = [
    ...(others === 0 ? [] : [`${others} jobs did not complete`]),
    ...(perListing <= most ? [] : [`${perListing} calls for each listing, ${most} expected`]),
    ...(requests === undefined || payloads === 'new' || requests.chat + requests.embed === 0
      ? []
      : ['unchanged listings came to the model server']),
  ];
  return wrong.map((what) => `${variant}, ${payloads}: ${what}`);
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

/** Embeddings of several listings share a request, so the server sees fewer than listings have calls. */
function requestsText(samples: readonly Sample[]): string {
  const each = samples.flatMap(({ requests, completed }) =>
    requests === undefined ? [] : [(requests.chat + requests.embed) / completed],
  );
  return each.length === 0 ? '' : figure(summarize(each).median, 2);
}

function goalsTable(samples: readonly Sample[], smoke: boolean): string {
  const of = (kind: Sample['payloads']) => samples.filter(({ payloads }) => payloads === kind);
  const mostNew = Math.max(...of('new').map(callsPerListing));
  const mostUnchanged = Math.max(...of('unchanged').map(callsPerListing));
  const rows = [
    row(`at most ${MOST_CALLS} calls for a new listing`, figure(mostNew, 2), mostNew <= MOST_CALLS),
    row('no call for an unchanged listing', figure(mostUnchanged, 2), mostUnchanged === 0),
  ];
  const busy = smoke ? [] : groups(of('new'));
  for (const [name, own] of busy) {
    const share = summarize(own.map((sample) => sample.busy));
    const percent = { median: 100 * share.median, min: 100 * share.min, max: 100 * share.max };
    rows.push(
      row(
        `${name}: busy at least ${100 * LEAST_BUSY} %`,
        spread(percent, 1),
        share.median >= LEAST_BUSY,
      ),
    );
  }
  return table(['', 'measured', ''], rows);
}

function row(goal: string, measured: string, met: boolean): string[] {
  return [goal, measured, met ? 'met' : 'not met'];
}
