import { oneLine } from '../terminal.ts';
import { JUDGED_FIELDS } from './golden.ts';
import {
  computePrecision,
  computeRecall,
  type Scores,
  sumTallies,
  type Tally,
  getTally,
} from './score.ts';

/** Result of the embedding check: the dimensions, or the failure. */
export type EmbeddingCheck =
  | { model: string; dimensions: number }
  | { model: string; error: { code: string; message: string } };

/** Result of one model. */
export type ModelResult = Scores & {
  model: string;
  /** Number of requests to the model. */
  calls: number;
  /** Number of input tokens. Null if the server does not report it. */
  inputTokens: number | null;
  outputTokens: number | null;
  /** Total time of all texts. */
  durationMs: number;
  /** Mean time of one text. */
  textMs: number;
};

/** Figures of an evaluation. */
export type Evaluation = {
  promptVersion: string;
  texts: number;
  /** Results of the configured model and, for comparison, of the mock. */
  results: ModelResult[];
  embedding: EmbeddingCheck | undefined;
};

const integers = new Intl.NumberFormat('en');

/** Formats a table row: the number of expected values, then precision and recall of each model. */
const formatRow = (title: string, tallies: readonly Tally[]): string[] => [
  title,
  ...tallies.slice(0, 1).map(({ right, missed }) => integers.format(right + missed)),
  ...tallies.flatMap((tally) => [share(computePrecision(tally)), share(computeRecall(tally))]),
];

/** Formats an evaluation as lines for a terminal. */
export function describeEvaluation(evaluation: Evaluation): string[] {
  const { promptVersion, texts, results, embedding } = evaluation;
  return [
    `${texts} texts, prompt ${promptVersion}`,
    '',
    ...table([
      ['', '', ...results.flatMap(({ model }) => [oneLine(model), ''])],
      ['field', 'values', ...results.flatMap(() => ['precision', 'recall'])],
      ...JUDGED_FIELDS.map((field) =>
        formatRow(
          field,
          results.map(({ tallies }) => getTally(tallies, field)),
        ),
      ),
      formatRow(
        'all but is_listing',
        results.map(({ tallies }) => sumTallies(tallies)),
      ),
    ]),
    '',
    ...table([
      ['cost', 'calls', 'tokens in', 'tokens out', 'time', 'per text'],
      ...results.map(({ model, calls, inputTokens, outputTokens, durationMs, textMs }) => [
        oneLine(model),
        integers.format(calls),
        tokens(inputTokens),
        tokens(outputTokens),
        seconds(durationMs),
        seconds(textMs),
      ]),
    ]),
    ...results.flatMap(describeFailures),
    ...(embedding === undefined ? [] : ['', describeEmbedding(embedding)]),
  ];
}

/** Aligns the first column to the left and the others to the right. */
function table(rows: string[][]): string[] {
  const widths = rows[0]?.map((_, nth) => Math.max(...rows.map((row) => row[nth]?.length ?? 0)));
  return rows.map(([title = '', ...cells]) =>
    [
      title.padEnd(widths?.[0] ?? 0),
      ...cells.map((cell, nth) => cell.padStart(widths?.[nth + 1] ?? 0)),
    ]
      .join('  ')
      .trimEnd(),
  );
}

/** Formats each difference as a line. */
export function describeDifferences({ model, differences }: ModelResult): string[] {
  return differences.flatMap(({ text, fields }) =>
    fields.map(({ field, expected, found }) =>
      oneLine(
        `${model}: ${text}: ${field} is ${JSON.stringify(found)}, not ${JSON.stringify(expected)}`,
      ),
    ),
  );
}

/** Returns an evaluation as the value of `--json`. */
export function toEvaluationJson({ promptVersion, texts, results, embedding }: Evaluation) {
  return {
    prompt_version: promptVersion,
    texts,
    models: results.map((result) => ({
      model: result.model,
      fields: Object.fromEntries(
        JUDGED_FIELDS.map((field) => [field, figures(getTally(result.tallies, field))]),
      ),
      all: figures(sumTallies(result.tallies)),
      failed: result.failed,
      differences: result.differences,
      calls: result.calls,
      input_tokens: result.inputTokens,
      output_tokens: result.outputTokens,
      duration_ms: Math.round(result.durationMs),
      text_ms: Math.round(result.textMs),
    })),
    ...(embedding === undefined ? {} : { embedding }),
  };
}

function figures(tally: Tally) {
  return { ...tally, precision: computePrecision(tally), recall: computeRecall(tally) };
}

/** Maximum number of named failures. */
const MAX_NAMED = 10;

function describeFailures({ model, failed }: ModelResult): string[] {
  if (failed.length === 0) return [];
  const more = failed.length - MAX_NAMED;
  return [
    '',
    `${oneLine(model)} gave no usable answer to ${failed.length} ${failed.length === 1 ? 'text' : 'texts'}, whose values count as missed:`,
    ...failed.slice(0, MAX_NAMED).map(({ text, message }) => `  ${oneLine(`${text}: ${message}`)}`),
    ...(more > 0 ? [`  … and ${more} more`] : []),
  ];
}

function describeEmbedding(embedding: EmbeddingCheck): string {
  const model = oneLine(embedding.model);
  return 'error' in embedding
    ? `Embeddings do not work: ${oneLine(embedding.error.message)}`
    : `Embeddings work: ${model} gives ${embedding.dimensions} numbers, as EMBEDDING_DIMENSIONS says.`;
}

function share(value: number | null): string {
  return value === null ? '–' : `${(value * 100).toFixed(1)} %`;
}

function tokens(count: number | null): string {
  return count === null ? 'unknown' : integers.format(count);
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 0)} s`;
}
