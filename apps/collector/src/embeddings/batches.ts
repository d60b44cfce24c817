import { logFields } from '@oselya/kit';
import { MAX_TEXTS_PER_REQUEST, type ModelClient } from '@oselya/model';
import DataLoader from 'dataloader';
import { type Embedded, embedTogether, type Wanted } from './together.ts';

export type { Embedded } from './together.ts';

/** What one request takes: some thirty texts of usual length, which no known server minds. */
const MAX_BYTES = 64 * 1024;

/**
 * How long a text waits for those of other jobs: for a share of what the last request took, so that it
 * costs nothing before a quick server and little before a slow one, which gains most.
 */
const WAIT_SHARE = 0.05;
const MAX_WAIT_MS = 50;

/**
 * Embeds a text.
 * @param wanted.alone In a request of its own, which takes no others along when it fails.
 * @throws ModelError, as if the text had been alone; `signal.reason` where it was given up before it was
 *   sent. One that is given up later is left to whoever gave it up: the request may go on for others.
 */
export type EmbedText = (wanted: Omit<Wanted, 'job'> & { alone?: boolean }) => Promise<Embedded>;

/** Joins the texts that jobs want to have embedded at about the same time into few requests. */
export function createEmbeddingBatches(model: Pick<ModelClient, 'embed'>): EmbedText {
  let lastMs = 0;

  async function embed(wanted: readonly Wanted[]): Promise<(Embedded | Error)[]> {
    const startedAt = performance.now();
    const results = await embedTogether(model, wanted);
    lastMs = performance.now() - startedAt;
    return results;
  }

  const loader = new DataLoader<Wanted, Embedded>(
    async (wanted) => (await Promise.all(inRequests(wanted).map(embed))).flat(),
    {
      cache: false,
      maxBatchSize: MAX_TEXTS_PER_REQUEST,
      batchScheduleFn: (send) => setTimeout(send, Math.min(MAX_WAIT_MS, lastMs * WAIT_SHARE)),
    },
  );
  return async ({ alone = false, ...rest }) => {
    rest.signal.throwIfAborted();
    const wanted: Wanted = { ...rest, job: logFields() };
    if (!alone) return loader.load(wanted);
    const [result] = await embed([wanted]);
    if (result === undefined || result instanceof Error) throw result;
    return result;
  };
}

/** Divides texts into requests of at most so many bytes; one text is never divided. */
export function inRequests(wanted: readonly Wanted[], maxBytes = MAX_BYTES): Wanted[][] {
  const requests: Wanted[][] = [];
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
