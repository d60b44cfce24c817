import type { Exact } from './exact.ts';
import {
  createBody,
  BREADTHS,
  FILTERS,
  formatGroup,
  createQuestions,
  type Question,
} from './questions.ts';

/** Share of the nearest listings that `similar` searches find, with filters of one selectivity. */
export type Recall = { filter: string; share: number; questions: number; recall: number };

export type Equality = {
  /** Number of compared full-text searches with fewer matches than the bound. */
  belowBound: number;
  /** Number of compared full-text searches with at least as many matches as the bound. */
  atBound: number;
  /** Wrong responses. */
  failures: string[];
};

type Answer = {
  items: { listing: { listing_id: number } }[];
  total?: { value: number; relation: 'eq' | 'gte' };
};

type SearchTarget = { url: string; exact: Exact; dimensions: number };

/** Maximum number of results of a recall search. */
const RECALL_LIMIT = 10;
const RANKING_LIMIT = 20;
const NO_BOUND = 2 ** 31 - 1;
const SEED = 31;

/**
 * Measures the recall of `similar` searches.
 * @param questionsPerFilter Number of questions for each filter selectivity.
 * @returns The recall for each selectivity.
 */
export async function measureRecall(
  { url, exact, dimensions }: SearchTarget,
  questionsPerFilter: number,
): Promise<Recall[]> {
  const filters = Object.keys(FILTERS);
  const count = questionsPerFilter * filters.length;
  const questions = createQuestions('similar', { count, seed: SEED, dimensions });
  const recalls: Recall[] = [];
  for (const filter of filters) {
    let foundCount = 0;
    let expectedCount = 0;
    const filterQuestions = questions.filter((question) => question.filter === filter);
    for (const question of filterQuestions) {
      const { embedding = [], filters: questionFilters } = question;
      const nearestIds = await exact.nearest(embedding, questionFilters, RECALL_LIMIT);
      const resultIds = new Set(readIds(await sendSearch(url, question, RECALL_LIMIT)));
      foundCount += nearestIds.filter((id) => resultIds.has(id)).length;
      expectedCount += nearestIds.length;
    }
    const selectivity = await measureSelectivity(exact, filter);
    recalls.push({
      filter,
      share: selectivity,
      questions: filterQuestions.length,
      recall: foundCount / expectedCount,
    });
  }
  return recalls;
}

/**
 * Compares full-text searches with exact rankings. If the matches exceed the bound, only the newest are ranked.
 * @param bound Maximum number of matches that the collector ranks.
 */
export async function checkRanking(
  { url, exact, dimensions }: SearchTarget,
  { bound, questionsPerGroup }: { bound: number; questionsPerGroup: number },
): Promise<Equality> {
  const count = questionsPerGroup * BREADTHS.length * Object.keys(FILTERS).length;
  const result: Equality = { belowBound: 0, atBound: 0, failures: [] };
  for (const question of createQuestions('fulltext', { count, seed: SEED, dimensions })) {
    const { query = '', filters } = question;
    const newest = await exact.ranked(query, filters, { bound, limit: RANKING_LIMIT });
    const isBelow = newest.count < bound;
    result[isBelow ? 'belowBound' : 'atBound'] += 1;
    const expected = isBelow
      ? await exact.ranked(query, filters, { bound: NO_BOUND, limit: RANKING_LIMIT })
      : newest;
    const answer = await sendSearch(url, question, RANKING_LIMIT);
    const total = { value: expected.count, relation: isBelow ? 'eq' : 'gte' };
    const isSame =
      readIds(answer).join() === expected.ids.join() &&
      answer.total?.value === total.value &&
      answer.total.relation === total.relation;
    if (!isSame) {
      result.failures.push(
        `${formatGroup(question)}, ${JSON.stringify(createBody(question))}: the results differ from the exact ranking`,
      );
    }
  }
  return result;
}

async function measureSelectivity(exact: Exact, filter: string): Promise<number> {
  const shares = await Promise.all((FILTERS[filter] ?? []).map((one) => exact.share(one)));
  return shares.reduce((sum, share) => sum + share, 0) / shares.length;
}

async function sendSearch(url: string, question: Question, limit: number): Promise<Answer> {
  const response = await fetch(`${url}/api/v1/search/${question.kind}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...createBody(question), limit }),
  });
  if (response.status !== 200) {
    throw new Error(`A search failed with status ${response.status}: ${await response.text()}`);
  }
  return (await response.json()) as Answer;
}

function readIds({ items }: Answer): number[] {
  return items.map(({ listing }) => listing.listing_id);
}
