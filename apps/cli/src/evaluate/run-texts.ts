import { ModelError, type Trial, type TrialReading } from '@oselya/collector';
import { createUsage, type Tokens } from '@oselya/model';
import type { GoldenText } from './golden.ts';
import { type Difference, emptyTallies, score, type Tallies } from './score.ts';

/** The result of a model. */
export type Result = {
  model: string;
  tallies: Tallies;
  /** The wrong fields of each text, by its name. */
  differences: { text: string; fields: Difference[] }[];
  /** Texts without a usable answer. */
  failed: { text: string; code: string; message: string }[];
  /** Requests to the model. */
  calls: number;
  /** As the server counts them; null if it does not. */
  inputTokens: number | null;
  outputTokens: number | null;
  /** The time of all texts. */
  durationMs: number;
  /** The mean time of one text. */
  textMs: number;
};

/** Failures of the model on one text; every other failure is one of the server. */
const UNUSABLE: ReadonlySet<string> = new Set([
  'MODEL_INVALID_OUTPUT',
  'MODEL_TRUNCATED',
  'MODEL_REFUSED',
]);

/**
 * Reads texts with a model, several at once, and compares the values with the expected ones.
 * @param options.onText Called after each text with the number of finished texts.
 * @throws ModelError if the server fails.
 */
export async function runTexts(
  trial: Pick<Trial, 'chatModel' | 'parallel' | 'read'>,
  texts: readonly GoldenText[],
  { signal, onText }: { signal: AbortSignal; onText: (done: number) => void },
): Promise<Result> {
  const startedAt = performance.now();
  const stop = new AbortController();
  const usage = createUsage();
  const readings = new Map<GoldenText, TrialReading | ModelError>();
  let textsMs = 0;
  const options = {
    signal: AbortSignal.any([signal, stop.signal]),
    observe: (event: Tokens) => usage.add(event),
  };
  const queue = texts.values();

  async function work(): Promise<void> {
    for (const text of queue) {
      const begunAt = performance.now();
      readings.set(text, await trial.read(text.payload, options).catch(keepUnusable));
      textsMs += performance.now() - begunAt;
      onText(readings.size);
    }
  }

  try {
    await Promise.all(Array.from({ length: trial.parallel }, work));
  } finally {
    stop.abort();
  }
  return {
    model: trial.chatModel,
    ...judge(texts, readings),
    ...usage.total(),
    durationMs: performance.now() - startedAt,
    textMs: textsMs / texts.length,
  };
}

function judge(
  texts: readonly GoldenText[],
  readings: ReadonlyMap<GoldenText, TrialReading | ModelError>,
): Pick<Result, 'tallies' | 'differences' | 'failed'> {
  const tallies = emptyTallies();
  const differences: Result['differences'] = [];
  const failed: Result['failed'] = [];
  for (const text of texts) {
    const reading = readings.get(text);
    const isFailure = reading instanceof ModelError;
    const fields = score(tallies, text.expected, isFailure ? undefined : reading);
    if (isFailure) failed.push({ text: text.name, code: reading.code, message: reading.message });
    else if (fields.length > 0) differences.push({ text: text.name, fields });
  }
  return { tallies, differences, failed };
}

function keepUnusable(error: unknown): ModelError {
  if (error instanceof ModelError && UNUSABLE.has(error.code)) return error;
  throw error;
}
