import { oneLine } from '../terminal.ts';
import { JUDGED } from './golden.ts';
import type { Result } from './run-texts.ts';
import { precision, recall, sumOf, type Tally, tallyOf } from './score.ts';

/** Whether the embeddings of a model fit the database. */
export type EmbeddingCheck =
  | { model: string; dimensions: number }
  | { model: string; error: { code: string; message: string } };

/** How well the texts were read. */
export type Evaluation = {
  promptVersion: string;
  texts: number;
  /** The configured model, and the mock beside it unless it is the mock. */
  results: Result[];
  embedding: EmbeddingCheck | undefined;
};

/** The row of the sum. */
const ALL = 'all but is_listing';

const NUMBER_WIDTH = 11;
const COUNT_WIDTH = 10;

const integers = new Intl.NumberFormat('en');

/** The evaluation as lines for a terminal. */
export function describeEvaluation({
  promptVersion,
  texts,
  results,
  embedding,
}: Evaluation): string[] {
  const names = results.map(({ model }) => oneLine(model));
  const first = Math.max(...[ALL, ...names, ...JUDGED].map((name) => name.length));
  const pairWidth = Math.max(2 * NUMBER_WIDTH, ...names.map((name) => name.length + 2));
  const pair = (left: string, right: string) =>
    left.padStart(pairWidth - NUMBER_WIDTH) + right.padStart(NUMBER_WIDTH);
  const row = (name: string, tallies: Tally[]) =>
    [
      name.padEnd(first),
      valuesIn(tallies).padStart(COUNT_WIDTH),
      ...tallies.map((tally) => pair(share(precision(tally)), share(recall(tally)))),
    ].join('');
  return [
    `${texts} texts, prompt ${promptVersion}`,
    '',
    [
      ''.padEnd(first),
      ''.padStart(COUNT_WIDTH),
      ...names.map((name) => name.padStart(pairWidth)),
    ].join(''),
    [
      'field'.padEnd(first),
      'values'.padStart(COUNT_WIDTH),
      ...names.map(() => pair('precision', 'recall')),
    ].join(''),
    ...JUDGED.map((field) =>
      row(
        field,
        results.map(({ tallies }) => tallyOf(tallies, field)),
      ),
    ),
    row(
      ALL,
      results.map(({ tallies }) => sumOf(tallies)),
    ),
    '',
    ...describeCosts(results, first),
    ...results.flatMap(describeFailures),
    ...(embedding === undefined ? [] : ['', describeEmbedding(embedding)]),
  ];
}

/** Each difference in a line of its own. */
export function describeDifferences({ model, differences }: Result): string[] {
  return differences.flatMap(({ text, fields }) =>
    fields.map(({ field, expected, found }) =>
      oneLine(
        `${model}: ${text}: ${field} is ${JSON.stringify(found)}, not ${JSON.stringify(expected)}`,
      ),
    ),
  );
}

/** The evaluation as the value of `--json`. */
export function evaluationJson({ promptVersion, texts, results, embedding }: Evaluation) {
  return {
    prompt_version: promptVersion,
    texts,
    models: results.map((result) => ({
      model: result.model,
      fields: Object.fromEntries(
        JUDGED.map((field) => [field, figures(tallyOf(result.tallies, field))]),
      ),
      all: figures(sumOf(result.tallies)),
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
  return { ...tally, precision: precision(tally), recall: recall(tally) };
}

function describeCosts(results: Result[], first: number): string[] {
  const columns = ['calls', 'tokens in', 'tokens out', 'time', 'per text'];
  const row = (name: string, cells: string[]) =>
    name.padEnd(first) + cells.map((cell) => cell.padStart(COUNT_WIDTH + 2)).join('');
  return [
    row('cost', columns),
    ...results.map(({ model, calls, inputTokens, outputTokens, durationMs, textMs }) =>
      row(oneLine(model), [
        integers.format(calls),
        tokens(inputTokens),
        tokens(outputTokens),
        seconds(durationMs),
        seconds(textMs),
      ]),
    ),
  ];
}

/** How many texts are told of that have no answer which can be used. */
const NAMED = 10;

function describeFailures({ model, failed }: Result): string[] {
  if (failed.length === 0) return [];
  const more = failed.length - NAMED;
  return [
    '',
    `${oneLine(model)} gave no answer of use to ${failed.length} ${failed.length === 1 ? 'text' : 'texts'}, whose values count as missed:`,
    ...failed.slice(0, NAMED).map(({ text, message }) => `  ${oneLine(`${text}: ${message}`)}`),
    ...(more > 0 ? [`  … and ${more} more`] : []),
  ];
}

function describeEmbedding(embedding: EmbeddingCheck): string {
  const model = oneLine(embedding.model);
  return 'error' in embedding
    ? `Embeddings do not work: ${oneLine(embedding.error.message)}`
    : `Embeddings work: ${model} gives ${embedding.dimensions} numbers, as EMBEDDING_DIMENSIONS says.`;
}

/** How many values there are: the same for all models. */
function valuesIn([tally]: Tally[]): string {
  return tally === undefined ? '' : integers.format(tally.right + tally.missed);
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
