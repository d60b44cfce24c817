import { ModelError, openTrial, type Trial, type TrialExtraction } from '@oselya/collector';
import { formatJson } from '@oselya/inventory/text';
import { createUsage, type Tokens } from '@oselya/model';
import {
  CommandError,
  type Context,
  createInterruptSignal,
  INTERRUPTED_STATUS,
} from '../command.ts';
import { showProgress } from '../progress.ts';
import { sanitizeLine } from '../terminal.ts';
import { compareOutcomes, readSavedRun } from './compare.ts';
import { GOLDEN_TEXTS_FILE, type GoldenText, hashGoldenTexts, readGoldenTexts } from './golden.ts';
import {
  describeDifferences,
  describeEvaluation,
  type EmbeddingCheck,
  type Evaluation,
  type ModelResult,
  toEvaluationJson,
} from './report.ts';
import { scoreTexts } from './score.ts';

export type EvaluateOptions = {
  limit?: number;
  json?: boolean;
  verbose?: boolean;
  /** File of an earlier run to compare with. */
  compare?: string;
};

/**
 * Scores the configured model, and the mock for comparison, on the golden texts, and prints the result. Uses no
 * database.
 * @param file File of golden texts. Defaults to the golden texts of Oselya.
 * @throws CommandError if a file is invalid, the run to compare with had other texts, the model's server fails, or the
 *   model gives no usable answer; ConfigError and StartError for an invalid configuration.
 */
export async function evaluate(
  file: string | undefined,
  { limit, json = false, verbose = false, compare }: EvaluateOptions,
  { env, stderr, print, exitWith }: Context,
): Promise<void> {
  const signal = createInterruptSignal();
  const texts = (await readGoldenTexts(file ?? GOLDEN_TEXTS_FILE)).slice(0, limit);
  const savedRun = compare === undefined ? undefined : await readSavedRun(compare, texts);
  await using trial = openTrial(env);
  const isMock = trial.mode === 'mock';
  try {
    const result = await evaluateModel(trial, texts, { signal, stderr });
    const results = [result];
    if (!isMock) {
      await using mock = openTrial(env, { usesMock: true });
      results.push(await evaluateModel(mock, texts, { signal, stderr }));
    }
    const evaluation: Evaluation = {
      promptVersion: trial.promptVersion,
      textCount: texts.length,
      textsHash: hashGoldenTexts(texts),
      results,
      comparison: savedRun && {
        model: savedRun.model,
        promptVersion: savedRun.promptVersion,
        fields: compareOutcomes(result.outcomes, savedRun.outcomes),
      },
      embedding: isMock ? undefined : await checkEmbedding(trial, texts, signal),
    };
    if (json) return print(formatJson(toEvaluationJson(evaluation), 2));
    if (verbose) print(...results.flatMap(describeDifferences));
    print(...describeEvaluation(evaluation));
    if (isMock) {
      print(
        '',
        'This is the mock. Set MODEL_MODE=openai to evaluate another model: see docs/models.md.',
      );
    }
  } catch (error) {
    if (!(error instanceof ModelError)) throw error;
    if (signal.aborted) {
      print('The evaluation was stopped. Nothing was stored.');
      return exitWith(INTERRUPTED_STATUS);
    }
    throw new CommandError(`the model failed: ${sanitizeLine(error.message)} See docs/models.md`, {
      cause: error,
    });
  }
}

/** Scores one model. @throws CommandError if no completion is usable, ModelError if the model's server fails. */
async function evaluateModel(
  trial: Trial,
  texts: readonly GoldenText[],
  { signal, stderr }: { signal: AbortSignal } & Pick<Context, 'stderr'>,
): Promise<ModelResult> {
  const startedAt = performance.now();
  const progress = showProgress({ unit: 'texts', total: texts.length }, stderr);
  const failureController = new AbortController();
  const usage = createUsage();
  const extractions = new Map<GoldenText, TrialExtraction | ModelError>();
  let totalTextMs = 0;
  const options = {
    signal: AbortSignal.any([signal, failureController.signal]),
    observe: (event: Tokens) => usage.add(event),
  };
  const pendingTexts = texts.values();

  async function extractQueued(): Promise<void> {
    for (const text of pendingTexts) {
      const textStartedAt = performance.now();
      extractions.set(text, await trial.read(text.payload, options).catch(returnUnusableError));
      totalTextMs += performance.now() - textStartedAt;
      progress.update(extractions.size, sanitizeLine(trial.chatModel));
    }
  }

  try {
    await Promise.all(Array.from({ length: trial.parallel }, extractQueued));
  } finally {
    failureController.abort();
    progress.stop();
  }
  const scores = scoreTexts(texts, extractions);
  const [failure] = scores.failures;
  if (failure !== undefined && scores.failures.length === texts.length) {
    throw new CommandError(
      `the model gave no usable answer to any text. The first failure: ${sanitizeLine(failure.message)} See docs/models.md`,
    );
  }
  return {
    model: trial.chatModel,
    ...scores,
    ...usage.total(),
    durationMs: performance.now() - startedAt,
    meanTextMs: totalTextMs / texts.length,
  };
}

/** Error codes that concern one text. All other codes end the evaluation. */
const UNUSABLE_OUTPUT_CODES: ReadonlySet<string> = new Set([
  'MODEL_INVALID_OUTPUT',
  'MODEL_TRUNCATED',
  'MODEL_REFUSED',
]);

function returnUnusableError(error: unknown): ModelError {
  if (error instanceof ModelError && UNUSABLE_OUTPUT_CODES.has(error.code)) return error;
  throw error;
}

async function checkEmbedding(
  trial: Trial,
  [text]: readonly GoldenText[],
  signal: AbortSignal,
): Promise<EmbeddingCheck> {
  const model = trial.embeddingModel;
  try {
    return { model, dimensions: await trial.embed(text?.payload.description ?? '', signal) };
  } catch (error) {
    if (!(error instanceof ModelError) || signal.aborted) throw error;
    return { model, error: { code: error.code, message: error.message } };
  }
}
