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
  /** Number of full-text searches that ranked all matches. */
  whole: number;
  /** Number of full-text searches that ranked a first block of the matches. */
  inBlocks: number;
  /** Wrong responses. */
  failures: string[];
};

type Answer = {
  items: { listing: { listing_id: number }; rank: number }[];
  total?: { value: number; relation: 'eq' | 'gte' };
};

type SearchTarget = { url: string; exact: Exact; dimensions: number };

/** Maximum number of results of a recall search. */
const RECALL_LIMIT = 10;
const RANKING_LIMIT = 20;
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
 * Compares full-text searches with exact rankings. Of a search with more matches than one block, the hits must be matches
 * with exact ranks, best first, from a block of at least `minRanked` matches.
 */
export async function checkRanking(
  { url, exact, dimensions }: SearchTarget,
  { minRanked, questionsPerGroup }: { minRanked: number; questionsPerGroup: number },
): Promise<Equality> {
  const count = questionsPerGroup * BREADTHS.length * Object.keys(FILTERS).length;
  const result: Equality = { whole: 0, inBlocks: 0, failures: [] };
  for (const question of createQuestions('fulltext', { count, seed: SEED, dimensions })) {
    const { items, total } = await sendSearch(url, question, RANKING_LIMIT);
    const isWhole = total?.relation === 'eq';
    result[isWhole ? 'whole' : 'inBlocks'] += 1;
    const { query = '', filters } = question;
    const ids = isWhole ? undefined : readIds({ items });
    const ranked = await exact.ranked(query, filters, { ids, limit: RANKING_LIMIT });
    const hits = items.map(({ listing, rank }) => [listing.listing_id, Math.fround(rank)]);
    const hasRightTotal = isWhole
      ? total.value === ranked.count
      : total !== undefined && total.value >= minRanked;
    if (!hasRightTotal || JSON.stringify(hits) !== JSON.stringify(ranked.hits)) {
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

function readIds({ items }: Pick<Answer, 'items'>): number[] {
  return items.map(({ listing }) => listing.listing_id);
}
