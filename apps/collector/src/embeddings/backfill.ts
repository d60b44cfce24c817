import { MAX_TEXTS_PER_REQUEST, type ModelClient } from '@oselya/model';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { createModelCost } from '../model/cost.ts';
import {
  addEmbeddingCosts,
  type Candidate,
  countListings,
  type Filling,
  listCandidates,
  storeEmbeddings,
} from './repository.ts';
import { sha256 } from '../text.ts';
import { embeddingText, isEmbedded } from './text.ts';
import { embedTogether, isOfText } from './together.ts';

/** How many listings are looked at together. */
const PAGE = 256;

/** What every embedding model takes: one that refuses this takes nothing. */
const PLAIN_TEXT = 'Two rooms in Lviv';

/** What a backfill has done so far. */
export type BackfillReport = {
  /** Listings that were looked at, and filled in where that was needed. */
  checked: number;
  /** Those without an embedding, or with one of another text or by another model. */
  outdated: number;
  embedded: number;
  /** Those that changed meanwhile: a worker has them, or a later run. */
  changed: number;
  /** Those whose text the model refused, with its reason. */
  failed: { listingId: number; reason: string }[];
};

/** How a backfill goes, and whom it tells. */
export type BackfillOptions = {
  /** Only counts. */
  dryRun: boolean;
  /** Ends the run; the request on its way is given up. */
  signal: AbortSignal;
  /** Told after each batch, and of how many listings there were at the start. */
  onProgress: (report: Readonly<BackfillReport>, total: number) => void;
};

/**
 * Fills in embeddings that are missing or outdated. What is filled in is found to be so the next time, so
 * a run that was ended, however it was, is gone on with by another. Workers may run meanwhile, and so may
 * another backfill. What each listing cost is added to its payload's, also where the model failed.
 * Specification 001, Behaviour rules, 5; Contract 1.
 * @throws ModelError where the server fails after the client's attempts, or refuses each text of a batch
 *   and a plain one too: then it is not the texts.
 */
export async function backfillEmbeddings(
  { db, model }: { db: Kysely<Tables>; model: Pick<ModelClient, 'embed' | 'embeddingModel'> },
  { dryRun, signal, onProgress }: BackfillOptions,
): Promise<BackfillReport> {
  const report: BackfillReport = { checked: 0, outdated: 0, embedded: 0, changed: 0, failed: [] };
  const total = await countListings(db);

  /**
   * Embeds the listings and stores what became of them.
   * @throws What kept some of them from being embedded and is not of their texts, once the others are stored.
   */
  async function fill(listings: readonly Outdated[]): Promise<void> {
    const wanted = listings.map(({ id, text }) => {
      const cost = createModelCost();
      return { listingId: id, text, signal, observe: cost.observe, cost };
    });
    const results = await embedTogether(model, wanted);
    const costs = wanted.map(({ listingId, cost }) => ({ listingId, usage: cost.usage() }));
    await addEmbeddingCosts(db, costs);
    // What the runs before have left may be nothing but texts that are refused.
    if (results.every(isOfText)) await model.embed([PLAIN_TEXT], { signal });
    const fillings: Filling[] = [];
    let refused = 0;
    let failure: Error | undefined;
    for (const [index, { id, hash }] of listings.entries()) {
      const result = results[index];
      if (result === undefined) throw new Error('A text has neither a vector nor an error');
      if (!(result instanceof Error)) {
        fillings.push({ listingId: id, hash, ...result });
      } else if (isOfText(result)) {
        refused += 1;
        report.failed.push({ listingId: id, reason: result.message });
      } else {
        failure ??= result;
      }
    }
    const stored = fillings.length === 0 ? 0 : await storeEmbeddings(db, fillings);
    report.embedded += stored;
    report.changed += fillings.length - stored;
    count(fillings.length + refused);
    if (failure !== undefined) throw failure;
  }

  function count(outdated: number): void {
    report.checked += outdated;
    report.outdated += outdated;
    onProgress(report, total);
  }

  for await (const page of pages(db)) {
    const outdated = page.flatMap((listing) => findOutdated(listing, model.embeddingModel));
    report.checked += page.length - outdated.length;
    for (let start = 0; start < outdated.length; start += MAX_TEXTS_PER_REQUEST) {
      const batch = outdated.slice(start, start + MAX_TEXTS_PER_REQUEST);
      try {
        if (dryRun) count(batch.length);
        else await fill(batch);
      } catch (error) {
        if (signal.aborted) return report;
        throw error;
      }
    }
    onProgress(report, total);
    if (signal.aborted) return report;
  }
  return report;
}

type Outdated = { id: number; text: string; hash: string };

function findOutdated(listing: Candidate, model: string): Outdated[] {
  const text = embeddingText(listing);
  const hash = sha256(text);
  return isEmbedded(listing, { hash, model }) ? [] : [{ id: listing.id, text, hash }];
}

/** All listings, by their ids: those that come in meanwhile too. */
async function* pages(db: Kysely<Tables>): AsyncGenerator<Candidate[]> {
  for (let after = 0; ;) {
    const page = await listCandidates(db, { after, limit: PAGE });
    const last = page.at(-1);
    if (last === undefined) return;
    yield page;
    after = last.id;
  }
}
