import { type Goal, formatGoals, formatNumber, formatRange, formatTable } from '../report.ts';
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
export function formatReport(samples: readonly Sample[], { rounds, isSmokeRun }: Options): Report {
  const validateSamples = samples.filter(({ variant }) => variant === oselya.name);
  const text = [
    '## Commands',
    `Rounds: ${rounds}; peers and runs on standard input are measured once. Each command runs in a separate ` +
      'process, and its time is that of the whole process. `errors` is the number of reported errors.' +
      (isSmokeRun ? ' This was a smoke run, which is too small to measure speed.' : ''),
    formatCommandsTable(samples),
    ...(isSmokeRun ? [] : ['## Goals', formatGoals(evaluateGoals(samples, validateSamples))]),
  ];
  const checked = samples.filter(({ variant }) => variant === oselya.name || variant === lint.name);
  return { text: text.join('\n\n'), failures: checked.flatMap(findFailures) };
}

/** Returns wrong exit statuses and findings, which count as failures on any machine. */
function findFailures({ variant, document, exitStatus, difference }: Sample): string[] {
  const expected = document.faulty === 0 ? 0 : 1;
  const wrong = [
    ...(exitStatus === expected ? [] : [`exit status ${exitStatus}, expected ${expected}`]),
    ...(difference === undefined ? [] : [difference]),
  ];
  return wrong.map((failure) => `${variant}, ${formatDocumentName(document)}: ${failure}`);
}

function formatCommandsTable(samples: readonly Sample[]): string {
  const groups = Map.groupBy(samples, ({ variant, document, megabytes }) => {
    return `${formatDocumentName(document)}, ${formatNumber(megabytes)} MB: ${variant}`;
  });
  return formatTable(
    ['', 'seconds', 'processor s', 'peak MB', 'errors'],
    Array.from(groups, ([name, group]) => [name, ...formatMeasurements(group)]),
  );
}

function formatMeasurements(group: readonly Sample[]): string[] {
  const seconds = formatRange(summarize(group.map(({ wallMs }) => wallMs / 1000)), 2);
  const usages = group.flatMap(({ usage }) => usage ?? []);
  if (usages.length < group.length) return [seconds, 'crashed', '', ''];
  return [
    seconds,
    formatRange(summarize(usages.map(({ cpuMs }) => cpuMs / 1000)), 2),
    formatNumber(Math.max(...usages.map(({ peakMB }) => peakMB))),
    formatNumber(Math.max(...group.map(({ errors }) => errors))),
  ];
}

function formatDocumentName({ records, faulty, format }: Document): string {
  const kind = format === 'json' ? 'records' : 'lines';
  const state = faulty === 0 ? 'valid' : `${formatNumber(100 * faulty)} % invalid`;
  return `${formatNumber(records)} ${kind}, ${state}`;
}

function evaluateGoals(samples: readonly Sample[], validateSamples: readonly Sample[]): Goal[] {
  const validSamples = samples.filter(({ document }) => document.faulty === 0);
  const [large, small] = Map.groupBy(validSamples, ({ document }) => document).values();
  const time = computeRatio(large, [oselya, jsonParse], ({ wallMs }) => wallMs);
  const processor = computeRatio(small, [lint, oselya], ({ usage }) => usage?.cpuMs ?? Infinity);
  const peak = Math.max(...validateSamples.map(({ usage }) => usage?.peakMB ?? Infinity));
  const wrong = validateSamples.filter(({ difference }) => difference !== undefined).length;
  return [
    {
      goal: `a valid file: at most ${MAX_TIME_RATIO} × the time of JSON.parse`,
      measured: formatRange(time, 2),
      isMet: time.median <= MAX_TIME_RATIO,
    },
    {
      goal: `lint: at most ${MAX_LINT_RATIO} × the processor time of validate, for 100,000 records`,
      measured: formatRange(processor, 2),
      isMet: processor.median <= MAX_LINT_RATIO,
    },
    {
      goal: `memory of validate: at most ${MAX_MEMORY_MB} MB for every size`,
      measured: `${formatNumber(peak)} MB`,
      isMet: peak <= MAX_MEMORY_MB,
    },
    {
      goal: 'every error is reported at its position',
      measured: wrong === 0 ? 'all' : `${wrong} runs differ`,
      isMet: wrong === 0,
    },
  ];
}

/** Returns the ratio of two commands' values, compared within each round. */
function computeRatio(
  samples: readonly Sample[] = [],
  [first, second]: readonly [Variant, Variant],
  readValue: (sample: Sample) => number,
) {
  const values = ({ name }: Variant) =>
    samples
      .filter(({ variant }) => variant === name)
      .toSorted((a, b) => a.round - b.round)
      .map(readValue);
  return ratio(values(first), values(second));
}
