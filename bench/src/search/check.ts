import type { Exact } from './exact.ts';
import {
  createBody,
  BREADTHS,
  FILTERS,
  formatGroup,
  createQuestions,
  type Question,
} from './questions.ts';

/** Share of the nearest listings that similar searches find, with filters of one selectivity. */
export type Recall = { filter: string; share: number; questions: number; recall: number };

/** Number of compared full-text searches by their matches, and wrong answers. */
export type Equality = { belowBound: number; atBound: number; failures: string[] };

type Answer = {
  items: { listing: { listing_id: number } }[];
  total?: { value: number; relation: 'eq' | 'gte' };
};

type SearchTarget = { url: string; exact: Exact; dimensions: number };

/** Limit of a recall search. */
const RECALL_LIMIT = 10;
const RANKING_LIMIT = 20;
const NO_BOUND = 2 ** 31 - 1;
const SEED = 31;

/**
 * Measures the recall of similar searches.
 * @param each Number of questions for each filter selectivity.
 * @returns The recall for each selectivity.
 */
export async function measureRecall(
  { url, exact, dimensions }: SearchTarget,
  each: number,
): Promise<Recall[]> {
  const filters = Object.keys(FILTERS);
  const count = each * filters.length;
  const questions = createQuestions('similar', { count, seed: SEED, dimensions });
  const recalls: Recall[] = [];
  for (const filter of filters) {
    let right = 0;
    let possible = 0;
    const own = questions.filter((question) => question.filter === filter);
    for (const question of own) {
      const { embedding = [], filters: passing } = question;
      const truth = await exact.nearest(embedding, passing, RECALL_LIMIT);
      const found = new Set(readIds(await ask(url, question, RECALL_LIMIT)));
      right += truth.filter((id) => found.has(id)).length;
      possible += truth.length;
    }
    const share = await measureShare(exact, filter);
    recalls.push({ filter, share, questions: own.length, recall: right / possible });
  }
  return recalls;
}

/**
 * Compares full-text searches with the ranking of all matches, or of the newest ones above the bound.
 * @param bound Maximum number of matches that the collector ranks.
 */
export async function checkRanking(
  { url, exact, dimensions }: SearchTarget,
  { bound, each }: { bound: number; each: number },
): Promise<Equality> {
  const count = each * BREADTHS.length * Object.keys(FILTERS).length;
  const result: Equality = { belowBound: 0, atBound: 0, failures: [] };
  for (const question of createQuestions('fulltext', { count, seed: SEED, dimensions })) {
    const { query = '', filters } = question;
    const newest = await exact.ranked(query, filters, { bound, limit: RANKING_LIMIT });
    const isBelow = newest.count < bound;
    result[isBelow ? 'belowBound' : 'atBound'] += 1;
    const right = isBelow
      ? await exact.ranked(query, filters, { bound: NO_BOUND, limit: RANKING_LIMIT })
      : newest;
    const answer = await ask(url, question, RANKING_LIMIT);
    const total = { value: right.count, relation: isBelow ? 'eq' : 'gte' };
    const isSame =
      readIds(answer).join() === right.ids.join() &&
      answer.total?.value === total.value &&
      answer.total.relation === total.relation;
    if (!isSame) {
      result.failures.push(
        `${formatGroup(question)}, ${JSON.stringify(createBody(question))}: another answer than the right one`,
      );
    }
  }
  return result;
}

async function measureShare(exact: Exact, filter: string): Promise<number> {
  const shares = await Promise.all((FILTERS[filter] ?? []).map((one) => exact.share(one)));
  return shares.reduce((sum, share) => sum + share, 0) / shares.length;
}

async function ask(url: string, question: Question, limit: number): Promise<Answer> {
  const response = await fetch(`${url}/api/v1/search/${question.kind}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...createBody(question), limit }),
  });
  if (response.status !== 200) {
    throw new Error(`A search answered ${response.status}: ${await response.text()}`);
  }
  return (await response.json()) as Answer;
}

function readIds({ items }: Answer): number[] {
  return items.map(({ listing }) => listing.listing_id);
}
