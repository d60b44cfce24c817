import { formatFirstLines, sanitizeLine } from '../terminal.ts';
import type { FieldComparison } from './compare.ts';
import {
  ALL_FIELDS,
  computePrecision,
  computeRecall,
  countCorrect,
  type Outcome,
  type Scores,
  sumTallies,
  type Tally,
} from './score.ts';
import { computeWilsonInterval } from './statistics.ts';

/** Result of the embedding check: the dimensions, or the failure. */
export type EmbeddingCheck =
  | { model: string; dimensions: number }
  | { model: string; error: { code: string; message: string } };

export type ModelResult = Scores & {
  model: string;
  calls: number;
  /** Number of input tokens. Null if the server does not report it. */
  inputTokens: number | null;
  outputTokens: number | null;
  durationMs: number;
  meanTextMs: number;
};

/** Comparison of the configured model's run with an earlier run. */
export type Comparison = { model: string; promptVersion: string; fields: FieldComparison[] };

export type Evaluation = {
  promptVersion: string;
  textCount: number;
  textsHash: string;
  /** Result of the configured model, then that of the mock for comparison, unless the mock is configured. */
  results: ModelResult[];
  comparison: Comparison | undefined;
  embedding: EmbeddingCheck | undefined;
};

const MAX_NAMED_FAILURES = 10;

const integerFormat = new Intl.NumberFormat('en');

/** Formats an evaluation as lines for a terminal. */
export function describeEvaluation(evaluation: Evaluation): string[] {
  const { promptVersion, textCount, results, comparison, embedding } = evaluation;
  const fields = [...(results[0]?.tallies.keys() ?? [])];
  return [
    `${textCount} texts, prompt ${promptVersion}`,
    '',
    ...formatTable([
      ['', '', ...results.flatMap(({ model }) => [sanitizeLine(model), ''])],
      ['field', 'values', ...results.flatMap(() => ['precision', 'recall'])],
      ...fields.map((field) =>
        createRow(
          field,
          results.flatMap(({ tallies }) => tallies.get(field) ?? []),
        ),
      ),
      createRow(
        'all but is_listing',
        results.map(({ tallies }) => sumTallies(tallies)),
      ),
    ]),
    '',
    ...formatTable([
      ['accuracy', 'texts', ...results.map(({ model }) => sanitizeLine(model))],
      ...[...fields, ALL_FIELDS].map((field) => createAccuracyRow(field, results)),
    ]),
    ...(comparison === undefined ? [] : describeComparison(evaluation, comparison)),
    '',
    ...formatTable([
      ['cost', 'calls', 'tokens in', 'tokens out', 'time', 'per text'],
      ...results.map(({ model, calls, inputTokens, outputTokens, durationMs, meanTextMs }) => [
        sanitizeLine(model),
        integerFormat.format(calls),
        formatTokens(inputTokens),
        formatTokens(outputTokens),
        formatSeconds(durationMs),
        formatSeconds(meanTextMs),
      ]),
    ]),
    ...results.flatMap(describeFailures),
    ...(embedding === undefined ? [] : ['', describeEmbedding(embedding)]),
  ];
}

/** Creates a table row: the number of expected values, then precision and recall of each model. */
function createRow(title: string, tallies: readonly Tally[]): string[] {
  const [{ right, missed } = { right: 0, missed: 0 }] = tallies;
  const shares = tallies.flatMap((tally) => [computePrecision(tally), computeRecall(tally)]);
  return [title, integerFormat.format(right + missed), ...shares.map(formatShare)];
}

/** Creates a table row: the number of judged texts, then the accuracy of each model with its interval. */
function createAccuracyRow(field: string, results: readonly ModelResult[]): string[] {
  const accuracies = results.map(({ outcomes }) => computeAccuracy(outcomes, field));
  return [
    field,
    integerFormat.format(accuracies[0]?.texts ?? 0),
    ...accuracies.map(({ accuracy, interval }) => {
      const bounds = interval?.map((bound) => (bound * 100).toFixed(1)).join('–');
      return bounds === undefined ? '–' : `${formatShare(accuracy)} (${bounds})`;
    }),
  ];
}

/** Computes the share of texts that have a field right, with its 95 % confidence interval. */
function computeAccuracy(outcomes: readonly Outcome[], field: string) {
  const { texts, correct } = countCorrect(outcomes, field);
  const accuracy = texts === 0 ? null : correct / texts;
  return { texts, correct, accuracy, interval: computeWilsonInterval(correct, texts) };
}

function describeComparison({ results }: Evaluation, comparison: Comparison): string[] {
  const { model, promptVersion, fields } = comparison;
  return [
    '',
    `compared with ${sanitizeLine(model)}, prompt ${sanitizeLine(promptVersion)}`,
    '',
    ...formatTable([
      [
        'accuracy',
        'texts',
        sanitizeLine(results[0]?.model ?? ''),
        'compared',
        'difference',
        'gained',
        'lost',
        'p',
      ],
      ...fields.map(({ field, texts, correct, savedCorrect, gained, lost, p }) => [
        field,
        integerFormat.format(texts),
        formatShare(divide(correct, texts)),
        formatShare(divide(savedCorrect, texts)),
        formatDifference(divide(correct - savedCorrect, texts)),
        integerFormat.format(gained),
        integerFormat.format(lost),
        p < 0.001 ? '< 0.001' : p.toFixed(3),
      ]),
    ]),
  ];
}

const divide = (count: number, total: number): number | null =>
  total === 0 ? null : count / total;

function formatDifference(difference: number | null): string {
  if (difference === null) return '–';
  const points = (difference * 100).toFixed(1);
  return difference > 0 ? `+${points}` : points;
}

function formatTable(rows: string[][]): string[] {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  );
  return rows.map((row) =>
    row
      .map((cell, column) => {
        const width = widths[column] ?? 0;
        return column === 0 ? cell.padEnd(width) : cell.padStart(width);
      })
      .join('  ')
      .trimEnd(),
  );
}

/** Describes each field with a wrong or missed value in one line. */
export function describeDifferences({ model, differences }: ModelResult): string[] {
  return differences.flatMap(({ text, fields }) =>
    fields.map(({ field, expected, found }) =>
      sanitizeLine(
        `${model}: ${text}: ${field} is ${JSON.stringify(found)}, not ${JSON.stringify(expected)}`,
      ),
    ),
  );
}

/** Converts an evaluation to the output of `--json`. */
export function toEvaluationJson(evaluation: Evaluation) {
  const { promptVersion, textCount, textsHash, results, comparison, embedding } = evaluation;
  return {
    prompt_version: promptVersion,
    texts: textCount,
    texts_hash: textsHash,
    models: results.map((result) => ({
      model: result.model,
      fields: Object.fromEntries(
        [...result.tallies].map(([field, tally]) => [
          field,
          { ...toTallyJson(tally), ...computeAccuracy(result.outcomes, field) },
        ]),
      ),
      all: toTallyJson(sumTallies(result.tallies)),
      whole_texts: computeAccuracy(result.outcomes, ALL_FIELDS),
      failed: result.failures,
      differences: result.differences,
      calls: result.calls,
      input_tokens: result.inputTokens,
      output_tokens: result.outputTokens,
      duration_ms: Math.round(result.durationMs),
      text_ms: Math.round(result.meanTextMs),
    })),
    ...(comparison && { comparison: toComparisonJson(comparison) }),
    ...(embedding && { embedding }),
  };
}

function toComparisonJson({ model, promptVersion, fields }: Comparison) {
  const entries = fields.map(({ field, savedCorrect, ...counts }) => {
    const { texts, correct } = counts;
    const difference = divide(correct - savedCorrect, texts);
    return [field, { ...counts, compared_correct: savedCorrect, difference }] as const;
  });
  const { [ALL_FIELDS]: wholeTexts, ...fieldCounts } = Object.fromEntries(entries);
  return {
    model,
    prompt_version: promptVersion,
    fields: fieldCounts,
    whole_texts: wholeTexts,
  };
}

function toTallyJson(tally: Tally) {
  return { ...tally, precision: computePrecision(tally), recall: computeRecall(tally) };
}

function describeFailures({ model, failures }: ModelResult): string[] {
  if (failures.length === 0) return [];
  const lines = failures.map(({ text, message }) => sanitizeLine(`${text}: ${message}`));
  return [
    '',
    `${sanitizeLine(model)} gave no usable answer to ${failures.length} ${failures.length === 1 ? 'text' : 'texts'}, whose values count as missed:`,
    ...formatFirstLines(lines, MAX_NAMED_FAILURES, '  '),
  ];
}

function describeEmbedding(embedding: EmbeddingCheck): string {
  return 'error' in embedding
    ? `Embeddings do not work: ${sanitizeLine(embedding.error.message)}`
    : `Embeddings work: ${sanitizeLine(embedding.model)} gives ${embedding.dimensions} numbers, which matches EMBEDDING_DIMENSIONS.`;
}

function formatShare(share: number | null): string {
  return share === null ? '–' : `${(share * 100).toFixed(1)} %`;
}

function formatTokens(count: number | null): string {
  return count === null ? 'unknown' : integerFormat.format(count);
}

function formatSeconds(ms: number): string {
  return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 0)} s`;
}
