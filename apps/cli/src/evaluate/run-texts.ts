import { ModelError, type Trial, type TrialReading } from '@oselya/collector';
import { createUsage, type Tokens } from '@oselya/model';
import type { GoldenText } from './golden.ts';
import { type Difference, emptyTallies, score, type Tallies } from './score.ts';

/** How a model read the texts. */
export type Result = {
  model: string;
  tallies: Tallies;
  /** What is not as it should be, by the name of its text. */
  differences: { text: string; fields: Difference[] }[];
  /** Texts without an answer that can be used. */
  failed: { text: string; code: string; message: string }[];
  /** Requests to the model. */
  calls: number;
  /** As the server counts them; null where it does not. */
  inputTokens: number | null;
  outputTokens: number | null;
  /** From the first text to the last one. */
  durationMs: number;
  /** Of one text, in the mean. */
  textMs: number;
};

/** The answers that say something about the model; every other failure is one of the server. */
const ANSWERS: ReadonlySet<string> = new Set([
  'MODEL_INVALID_OUTPUT',
  'MODEL_TRUNCATED',
  'MODEL_REFUSED',
]);

/**
 * Has a model read texts, a few at once, and compares what it reads.
 * @param onText Told after each how many are done.
 * @throws ModelError where the server fails: then nothing can be said about the model.
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
      readings.set(text, await trial.read(text.payload, options).catch(keepAnswer));
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

function keepAnswer(error: unknown): ModelError {
  if (error instanceof ModelError && ANSWERS.has(error.code)) return error;
  throw error;
}
