import { getLogFields, withIsolatedLogFields } from '@oselya/kit';
import {
  MAX_TEXTS_PER_REQUEST,
  type ModelCallEvent,
  type ModelClient,
  ModelError,
  type ModelErrorCode,
} from '@oselya/model';
import DataLoader from 'dataloader';
import { toError } from '../async/group-commit.ts';

/** Text to embed, with the abort signal and the cost observer of its caller. */
export type EmbedRequest = {
  text: string;
  signal: AbortSignal;
  observe: (event: ModelCallEvent) => void;
  /** Log fields of the job. */
  job?: Readonly<Record<string, unknown>>;
};

/** Embedding of a text, and the configured name of the model. */
export type TextEmbedding = { vector: number[]; model: string };

/** Errors that a single text can cause for a whole request. */
const TEXT_SPECIFIC_CODES: ReadonlySet<ModelErrorCode> = new Set([
  'MODEL_REJECTED',
  'MODEL_INPUT_TOO_LARGE',
  'MODEL_REFUSED',
  'MODEL_INVALID_OUTPUT',
]);

/** Returns whether a single text may have caused an error, so that other texts may succeed. */
export function isTextSpecificError(error: unknown): boolean {
  return error instanceof ModelError && TEXT_SPECIFIC_CODES.has(error.code);
}

/**
 * Embeds texts in one request. If one text may have caused an error, sends each text alone. Aborts the request only
 * after all callers have aborted. Each text is charged one call and its share of the tokens.
 * @param wanted At most `MAX_TEXTS_PER_REQUEST` texts.
 * @returns An embedding or an error for each text.
 */
export async function embedTogether(
  model: Pick<ModelClient, 'embed'>,
  wanted: readonly EmbedRequest[],
): Promise<(TextEmbedding | Error)[]> {
  const texts = wanted.map(({ text }) => text);
  try {
    const { vectors, model: name } = await withIsolatedLogFields(combineLogFields(wanted), () =>
      model.embed(texts, {
        signal: createCombinedSignal(wanted.map(({ signal }) => signal)),
        observe: (event) => {
          const shares = shareTokens(event, texts);
          for (const [index, { observe }] of wanted.entries()) observe(shares[index] ?? event);
        },
      }),
    );
    return vectors.map((vector) => ({ vector, model: name }));
  } catch (error) {
    if (wanted.length === 1 || !isTextSpecificError(error)) {
      return wanted.map(() => toError(error));
    }
    const results: (TextEmbedding | Error)[] = [];
    for (const one of wanted) results.push(...(await embedTogether(model, [one])));
    return results;
  }
}

/** Returns the log fields of a request: the fields of its only job, or an array `jobs`. */
function combineLogFields(wanted: readonly EmbedRequest[]): Record<string, unknown> {
  const [first, ...others] = wanted.flatMap(({ job }) => (job === undefined ? [] : [job]));
  return others.length === 0 ? { ...first } : { jobs: [first, ...others] };
}

/** Returns a signal that aborts after all the given signals have aborted. */
function createCombinedSignal(signals: readonly AbortSignal[]): AbortSignal {
  const [first, ...others] = signals;
  if (first !== undefined && others.every((signal) => signal === first)) return first;
  const controller = new AbortController();
  const check = () => {
    if (signals.every(({ aborted }) => aborted)) controller.abort(first?.reason);
  };
  for (const signal of signals) signal.addEventListener('abort', check, { once: true });
  check();
  return controller.signal;
}

/** Divides the tokens of a request among its texts by length, rounded so that the total is exact. */
export function shareTokens(event: ModelCallEvent, texts: readonly string[]): ModelCallEvent[] {
  const whole = texts.reduce((sum, text) => sum + text.length, 0);
  let before = 0;
  return texts.map(({ length }) => {
    const [from, to] = [before, before + length];
    before = to;
    const part = (tokens: number | null) =>
      tokens === null || whole === 0
        ? tokens
        : Math.round((tokens * to) / whole) - Math.round((tokens * from) / whole);
    return {
      ...event,
      inputTokens: part(event.inputTokens),
      outputTokens: part(event.outputTokens),
    };
  });
}

/** Maximum size of a request: about thirty texts of typical length. */
const MAX_BYTES = 64 * 1024;

/** A text waits for texts of other jobs. The wait is this share of the duration of the last request. */
const WAIT_SHARE = 0.05;
const MAX_WAIT_MS = 50;

/**
 * Embeds a text. The request continues for other texts if this one is aborted after it was sent.
 * @param wanted.alone Whether to send the text in a request of only one text.
 * @throws ModelError if the embedding of this text fails; `signal.reason` if it is aborted before it is sent.
 */
export type EmbedText = (
  wanted: Omit<EmbedRequest, 'job'> & { alone?: boolean },
) => Promise<TextEmbedding>;

/** Creates a function that combines the texts of concurrent jobs into few requests. */
export function createBatchingEmbedder(model: Pick<ModelClient, 'embed'>): EmbedText {
  let lastMs = 0;

  async function embed(wanted: readonly EmbedRequest[]): Promise<(TextEmbedding | Error)[]> {
    const startedAt = performance.now();
    const results = await embedTogether(model, wanted);
    lastMs = performance.now() - startedAt;
    return results;
  }

  const loader = new DataLoader<EmbedRequest, TextEmbedding>(
    async (wanted) => (await Promise.all(splitIntoRequests(wanted).map(embed))).flat(),
    {
      cache: false,
      maxBatchSize: MAX_TEXTS_PER_REQUEST,
      batchScheduleFn: (send) => setTimeout(send, Math.min(MAX_WAIT_MS, lastMs * WAIT_SHARE)),
    },
  );
  return async ({ alone = false, ...rest }) => {
    rest.signal.throwIfAborted();
    const wanted: EmbedRequest = { ...rest, job: getLogFields() };
    if (!alone) return loader.load(wanted);
    const [result] = await embed([wanted]);
    if (result === undefined || result instanceof Error) throw result;
    return result;
  };
}

/** Divides texts into requests of at most `maxBytes`. A longer text gets its own request. */
export function splitIntoRequests(
  wanted: readonly EmbedRequest[],
  maxBytes = MAX_BYTES,
): EmbedRequest[][] {
  const requests: EmbedRequest[][] = [];
  let left = 0;
  for (const one of wanted) {
    const bytes = Buffer.byteLength(one.text);
    const last = requests.at(-1);
    if (last === undefined || bytes > left) {
      requests.push([one]);
      left = maxBytes - bytes;
    } else {
      last.push(one);
      left -= bytes;
    }
  }
  return requests;
}
