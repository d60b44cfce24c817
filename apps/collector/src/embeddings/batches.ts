import { getLogFields, withIsolatedLogFields } from '@oselya/kit';
import {
  MAX_TEXTS_PER_REQUEST,
  type ModelCallEvent,
  type ModelClient,
  ModelError,
  type ModelErrorCode,
} from '@oselya/model';
import DataLoader from 'dataloader';
import { splitBySize, toError } from '../async/group-commit.ts';

/** Text to embed, with the abort signal, usage observer and log fields of its job. */
type EmbedRequest = {
  text: string;
  signal: AbortSignal;
  observe: (event: ModelCallEvent) => void;
  logFields?: Readonly<Record<string, unknown>>;
};

/** Text embedding, and the configured model name. */
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
 * after all callers have aborted. Charges each text one call and its share of the tokens.
 * @param requests At most `MAX_TEXTS_PER_REQUEST` texts.
 * @returns An embedding or an error for each text.
 */
export async function embedTogether(
  model: Pick<ModelClient, 'embed'>,
  requests: readonly EmbedRequest[],
): Promise<(TextEmbedding | Error)[]> {
  const texts = requests.map(({ text }) => text);
  try {
    const { vectors, model: name } = await withIsolatedLogFields(combineLogFields(requests), () =>
      model.embed(texts, {
        signal: combineSignals(requests.map(({ signal }) => signal)),
        observe: (event) => {
          const eventShares = shareTokens(event, texts);
          for (const [index, { observe }] of requests.entries())
            observe(eventShares[index] ?? event);
        },
      }),
    );
    return vectors.map((vector) => ({ vector, model: name }));
  } catch (error) {
    if (requests.length === 1 || !isTextSpecificError(error)) {
      return requests.map(() => toError(error));
    }
    const results: (TextEmbedding | Error)[] = [];
    for (const request of requests) results.push(...(await embedTogether(model, [request])));
    return results;
  }
}

/** Returns the log fields of a single job, or an array `jobs` for several. */
function combineLogFields(requests: readonly EmbedRequest[]): Record<string, unknown> {
  const [firstFields, ...otherFields] = requests.flatMap(({ logFields }) =>
    logFields === undefined ? [] : [logFields],
  );
  if (firstFields === undefined) return {};
  return otherFields.length === 0 ? { ...firstFields } : { jobs: [firstFields, ...otherFields] };
}

/** Returns a signal that aborts after all signals have aborted. */
function combineSignals(signals: readonly AbortSignal[]): AbortSignal {
  const [firstSignal, ...otherSignals] = new Set(signals);
  if (firstSignal !== undefined && otherSignals.length === 0) return firstSignal;
  const controller = new AbortController();
  const abortIfAllAborted = () => {
    if (signals.every(({ aborted }) => aborted)) controller.abort(firstSignal?.reason);
  };
  for (const signal of signals) signal.addEventListener('abort', abortIfAllAborted, { once: true });
  abortIfAllAborted();
  return controller.signal;
}

/** Divides the tokens of a request among its texts by length, so that the rounded shares add up exactly. */
function shareTokens(event: ModelCallEvent, texts: readonly string[]): ModelCallEvent[] {
  const totalLength = texts.reduce((sum, text) => sum + text.length, 0);
  let endOffset = 0;
  return texts.map(({ length }) => {
    const startOffset = endOffset;
    endOffset += length;
    const divideTokens = (tokens: number | null) =>
      tokens === null || totalLength === 0
        ? tokens
        : Math.round((tokens * (startOffset + length)) / totalLength) -
          Math.round((tokens * startOffset) / totalLength);
    return {
      ...event,
      inputTokens: divideTokens(event.inputTokens),
      outputTokens: divideTokens(event.outputTokens),
    };
  });
}

/** Maximum request size: about thirty texts of typical length. */
const MAX_REQUEST_BYTES = 64 * 1024;

/** Time that a text waits for other jobs' texts, as a share of the duration of the last request. */
const WAIT_SHARE = 0.05;
const MAX_WAIT_MS = 50;

/**
 * Creates a function that embeds the texts of concurrent jobs in shared requests. With `isAlone`, a text is sent alone.
 * The function throws ModelError, or `signal.reason` if the signal is already aborted.
 */
export function createBatchingEmbedder(model: Pick<ModelClient, 'embed'>) {
  let lastDurationMs = 0;

  async function embed(requests: readonly EmbedRequest[]): Promise<(TextEmbedding | Error)[]> {
    const startedAt = performance.now();
    const results = await embedTogether(model, requests);
    lastDurationMs = performance.now() - startedAt;
    return results;
  }

  const loader = new DataLoader<EmbedRequest, TextEmbedding>(
    async (requests) => {
      const groups = splitBySize(
        requests,
        ({ text }) => Buffer.byteLength(text),
        MAX_REQUEST_BYTES,
      );
      return (await Promise.all(groups.map(embed))).flat();
    },
    {
      cache: false,
      maxBatchSize: MAX_TEXTS_PER_REQUEST,
      batchScheduleFn: (send) =>
        setTimeout(send, Math.min(MAX_WAIT_MS, lastDurationMs * WAIT_SHARE)),
    },
  );
  return async ({
    isAlone = false,
    ...textRequest
  }: Omit<EmbedRequest, 'logFields'> & { isAlone?: boolean }): Promise<TextEmbedding> => {
    textRequest.signal.throwIfAborted();
    const request: EmbedRequest = { ...textRequest, logFields: getLogFields() };
    if (!isAlone) return loader.load(request);
    const [result] = await embed([request]);
    if (result === undefined || result instanceof Error) throw result;
    return result;
  };
}
