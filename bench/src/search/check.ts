import type { Exact } from './exact.ts';
import {
  createBody,
  BREADTHS,
  FILTERS,
  formatGroup,
  createQuestions,
  type Question,
} from './questions.ts';

/** Share of the true nearest listings that a similar search finds, for filters of one selectivity. */
export type Recall = { filter: string; share: number; questions: number; recall: number };

/** Full-text searches whose answers were compared with the right ones. */
export type Equality = { belowBound: number; atBound: number; failures: string[] };

type Answer = {
  items: { listing: { listing_id: number } }[];
  total?: { value: number; relation: 'eq' | 'gte' };
};

type Asked = { url: string; exact: Exact; dimensions: number };

/** Number of requested neighbours: recall@10. */
const NEAREST = 10;
const SHOWN = 20;
/** Beyond any number of matches. */
const NO_BOUND = 2 ** 31 - 1;
const SEED = 31;

/** @param each How many questions for each share. */
export async function measureRecall(
  { url, exact, dimensions }: Asked,
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
      const truth = await exact.nearest(embedding, passing, NEAREST);
      const found = new Set(readIds(await ask(url, question, NEAREST)));
      right += truth.filter((id) => found.has(id)).length;
      possible += truth.length;
    }
    const share = await shareOf(exact, filter);
    recalls.push({ filter, share, questions: own.length, recall: right / possible });
  }
  return recalls;
}

/**
 * Compares full-text searches with the ranking of all matches where the bound is not reached, and with the
 * ranking of the newest ones where it is.
 * @param bound How many matches the collector ranks.
 */
export async function checkRanking(
  { url, exact, dimensions }: Asked,
  { bound, each }: { bound: number; each: number },
): Promise<Equality> {
  const count = each * BREADTHS.length * Object.keys(FILTERS).length;
  const result: Equality = { belowBound: 0, atBound: 0, failures: [] };
  for (const question of createQuestions('fulltext', { count, seed: SEED, dimensions })) {
    const { query = '', filters } = question;
    const newest = await exact.ranked(query, filters, { bound, limit: SHOWN });
    const isBelow = newest.count < bound;
    result[isBelow ? 'belowBound' : 'atBound'] += 1;
    const right = isBelow
      ? await exact.ranked(query, filters, { bound: NO_BOUND, limit: SHOWN })
      : newest;
    const answer = await ask(url, question, SHOWN);
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

async function shareOf(exact: Exact, filter: string): Promise<number> {
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
