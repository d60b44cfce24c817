import { type Goal, formatGoals, figure, spread, table } from '../report.ts';
import type { Options } from '../options.ts';
import { ratio, summarize } from '../statistics.ts';
import type { Report } from '../suite.ts';
import type { Document } from './documents.ts';
import type { Sample } from './sample.ts';
import { jsonParse, lint, oselya, type Variant } from './variants.ts';

const MAX_TIME_RATIO = 1.3;
const MAX_LINT_RATIO = 1.5;
const MAX_MEMORY_MB = 150;

/** Returns the results as Markdown, and the failed checks. */
export function formatReport(samples: readonly Sample[], { rounds, smoke }: Options): Report {
  const own = samples.filter(({ variant }) => variant === oselya.name);
  const text = [
    '## Commands',
    `Rounds: ${rounds}; the peers, and what comes through standard input, once. Each command is a process of ` +
      'its own, and its time that of the whole process. `errors` is how many it told.' +
      (smoke ? ' This was a smoke run: too small to say anything about speed.' : ''),
    commandsTable(samples),
    ...(smoke ? [] : ['## Goals', formatGoals(goals(samples, own))]),
  ];
  const checked = samples.filter(({ variant }) => variant === oselya.name || variant === lint.name);
  return { text: text.join('\n\n'), failures: checked.flatMap(findFailures) };
}

/** Returns wrong exit statuses and findings, which do not depend on the machine. */
function findFailures({ variant, document, exitStatus, difference }: Sample): string[] {
  const expected = document.faulty === 0 ? 0 : 1;
  const wrong = [
    ...(exitStatus === expected ? [] : [`exit status ${exitStatus}, expected ${expected}`]),
    ...(difference === undefined ? [] : [difference]),
  ];
  return wrong.map((failure) => `${variant}, ${formatDocumentName(document)}: ${failure}`);
}

function commandsTable(samples: readonly Sample[]): string {
  const groups = Map.groupBy(samples, ({ variant, document, megabytes }) => {
    return `${formatDocumentName(document)}, ${figure(megabytes)} MB: ${variant}`;
  });
  return table(
    ['', 'seconds', 'processor s', 'peak MB', 'errors'],
    Array.from(groups, ([name, group]) => [name, ...formatFigures(group)]),
  );
}

function formatFigures(group: readonly Sample[]): string[] {
  const seconds = spread(summarize(group.map(({ wallMs }) => wallMs / 1000)), 2);
  const used = group.flatMap(({ usage }) => usage ?? []);
  if (used.length < group.length) return [seconds, 'broke down', '', ''];
  return [
    seconds,
    spread(summarize(used.map(({ cpuMs }) => cpuMs / 1000)), 2),
    figure(Math.max(...used.map(({ peakMB }) => peakMB))),
    figure(Math.max(...group.map(({ errors }) => errors))),
  ];
}

function formatDocumentName({ records, faulty, format }: Document): string {
  const kind = format === 'json' ? 'records' : 'lines';
  const state = faulty === 0 ? 'valid' : `${figure(100 * faulty)} % invalid`;
  return `${figure(records)} ${kind}, ${state}`;
}

function goals(samples: readonly Sample[], own: readonly Sample[]): Goal[] {
  const valid = samples.filter(({ document }) => document.faulty === 0);
  const [large, small] = Map.groupBy(valid, ({ document }) => document).values();
  const time = computeRatio(large, [oselya, jsonParse], ({ wallMs }) => wallMs);
  const processor = computeRatio(small, [lint, oselya], ({ usage }) => usage?.cpuMs ?? Infinity);
  const peak = Math.max(...own.map(({ usage }) => usage?.peakMB ?? Infinity));
  const wrong = own.filter(({ difference }) => difference !== undefined).length;
  return [
    {
      goal: `a valid file: at most ${MAX_TIME_RATIO} × the time of JSON.parse`,
      measured: spread(time, 2),
      met: time.median <= MAX_TIME_RATIO,
    },
    {
      goal: `lint: at most ${MAX_LINT_RATIO} × the processor time of validate, for 100,000 records`,
      measured: spread(processor, 2),
      met: processor.median <= MAX_LINT_RATIO,
    },
    {
      goal: `memory of validate: at most ${MAX_MEMORY_MB} MB, whatever the size`,
      measured: `${figure(peak)} MB`,
      met: peak <= MAX_MEMORY_MB,
    },
    {
      goal: 'every error at its right place',
      measured: wrong === 0 ? 'all' : `${wrong} runs differ`,
      met: wrong === 0,
    },
  ];
}

/** Returns the ratio of two commands within each round. */
function computeRatio(
  samples: readonly Sample[] = [],
  [one, other]: readonly [Variant, Variant],
  figureOf: (sample: Sample) => number,
) {
  const figures = ({ name }: Variant) =>
    samples
      .filter(({ variant }) => variant === name)
      .toSorted((a, b) => a.round - b.round)
      .map(figureOf);
  return ratio(figures(one), figures(other));
}
