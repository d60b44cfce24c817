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

/** A text to embed, and the caller that may abort it and counts its cost. */
export type EmbedRequest = {
  text: string;
  signal: AbortSignal;
  observe: (event: ModelCallEvent) => void;
  /** The log fields of its job. */
  job?: Readonly<Record<string, unknown>>;
};

/** The vector of a text, and the configured name of its model. */
export type TextEmbedding = { vector: number[]; model: string };

/** Failures that one text may cause for all of a request. */
const TEXT_SPECIFIC_CODES: ReadonlySet<ModelErrorCode> = new Set([
  'MODEL_REJECTED',
  'MODEL_INPUT_TOO_LARGE',
  'MODEL_REFUSED',
  'MODEL_INVALID_OUTPUT',
]);

/** Tells whether a failure may be of one text alone, so that others may succeed. */
export function isTextSpecificError(error: unknown): boolean {
  return error instanceof ModelError && TEXT_SPECIFIC_CODES.has(error.code);
}

/**
 * Embeds texts in one request. Where one of them may be the cause of a failure, each is sent alone. The request is
 * aborted once all callers have aborted. It counts as a call of each text, with a share of the tokens.
 * @param wanted At most `MAX_TEXTS_PER_REQUEST`.
 * @returns A vector or an error for each.
 */
export async function embedTogether(
  model: Pick<ModelClient, 'embed'>,
  wanted: readonly EmbedRequest[],
): Promise<(TextEmbedding | Error)[]> {
  const texts = wanted.map(({ text }) => text);
  try {
    const { vectors, model: name } = await withIsolatedLogFields(logFieldsOf(wanted), () =>
      model.embed(texts, {
        signal: allAborted(wanted.map(({ signal }) => signal)),
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

/** Returns the log fields of a request: those of its one job, or of each in `jobs`. */
function logFieldsOf(wanted: readonly EmbedRequest[]): Record<string, unknown> {
  const [first, ...others] = wanted.flatMap(({ job }) => (job === undefined ? [] : [job]));
  return others.length === 0 ? { ...first } : { jobs: [first, ...others] };
}

/** Returns a signal that is aborted once all signals are. */
function allAborted(signals: readonly AbortSignal[]): AbortSignal {
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

/** Shares the tokens of a request among its texts by length, in whole numbers that add up. */
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

/** Most bytes of a request: some thirty texts of usual length. */
const MAX_BYTES = 64 * 1024;

/** A text waits for those of other jobs for a share of the duration of the last request. */
const WAIT_SHARE = 0.05;
const MAX_WAIT_MS = 50;

/**
 * Embeds a text.
 * @param wanted.alone Whether no other text shares its request.
 * @throws ModelError, as if the text had been alone; `signal.reason` where it was aborted before it was sent. The
 *   request of a text that is aborted later may go on for others.
 */
export type EmbedText = (
  wanted: Omit<EmbedRequest, 'job'> & { alone?: boolean },
) => Promise<TextEmbedding>;

/** Creates a function that embeds the texts of jobs at about the same time in few requests. */
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

/** Divides texts into requests of at most `maxBytes`; a text is never divided. */
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
