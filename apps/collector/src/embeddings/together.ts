import { withOnlyLogFields } from '@oselya/kit';
import {
  type ModelCallEvent,
  type ModelClient,
  ModelError,
  type ModelErrorCode,
} from '@oselya/model';
import { toError } from '../async/group-commit.ts';
import { shareTokens } from './share-tokens.ts';

/** A text to embed, for somebody who may give it up and wants to know what it cost. */
export type Wanted = {
  text: string;
  signal: AbortSignal;
  observe: (event: ModelCallEvent) => void;
  /** The job that wants it, as lines of the log name it. */
  job?: Readonly<Record<string, unknown>>;
};

/** A text's vector, and the configured name of the model that made it. */
export type Embedded = { vector: number[]; model: string };

/** Failures that one text may have brought upon all of a request: it is too long, or has no vector. */
const OF_A_TEXT: ReadonlySet<ModelErrorCode> = new Set([
  'MODEL_REJECTED',
  'MODEL_INPUT_TOO_LARGE',
  'MODEL_REFUSED',
  'MODEL_INVALID_OUTPUT',
]);

/** Whether a failure may be of one text alone, so that others may succeed. */
export function isOfText(error: unknown): boolean {
  return error instanceof ModelError && OF_A_TEXT.has(error.code);
}

/**
 * Embeds texts in one request, and judges each for itself: where one of them may be what failed, each
 * goes alone. Where the server failed they all have, since it has had its attempts already. The request is
 * given up once nobody wants it. One that all share counts as a call of each, its tokens in parts, and what
 * is logged of it names each of their jobs.
 * @param wanted At most `MAX_TEXTS_PER_REQUEST` of the model client, which would else make several requests of them.
 * @returns A vector or an error for each.
 */
export async function embedTogether(
  model: Pick<ModelClient, 'embed'>,
  wanted: readonly Wanted[],
): Promise<(Embedded | Error)[]> {
  const texts = wanted.map(({ text }) => text);
  try {
    const { vectors, model: name } = await withOnlyLogFields(logFieldsOf(wanted), () =>
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
    if (wanted.length === 1 || !isOfText(error)) {
      return wanted.map(() => toError(error));
    }
    const results: (Embedded | Error)[] = [];
    for (const one of wanted) results.push(...(await embedTogether(model, [one])));
    return results;
  }
}

/** What a line about a request carries: its one job's fields, or those of each in `jobs`. */
function logFieldsOf(wanted: readonly Wanted[]): Record<string, unknown> {
  const [first, ...others] = wanted.flatMap(({ job }) => (job === undefined ? [] : [job]));
  return others.length === 0 ? { ...first } : { jobs: [first, ...others] };
}

/** A signal that is aborted once all of them are. */
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
