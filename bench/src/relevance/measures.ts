/** Number of hits that nDCG and recall read, and of those with which a search succeeds. */
const DEPTH = 10;
const TOP = 5;

/** Relevance of one query, or the mean of several. */
export type Relevance = {
  /** Whether the first hit is right, and whether one of the first five is. */
  top1: number;
  top5: number;
  ndcg: number;
  recall: number;
};

/**
 * Measures the hits of a query.
 * @param grades Grades of the relevant listings: 2 for all that the query asks for, 1 for nearly all.
 */
export function measureHits(
  hits: readonly string[],
  grades: Readonly<Record<string, number>>,
): Relevance {
  const getGrade = (name: string | undefined) => grades[name ?? ''] ?? 0;
  const sumGains = (values: readonly number[]) =>
    values
      .slice(0, DEPTH)
      .reduce((sum, grade, index) => sum + (2 ** grade - 1) / Math.log2(index + 2), 0);
  const idealGrades = Object.values(grades).toSorted((a, b) => b - a);
  const foundCount = hits.slice(0, DEPTH).filter((name) => getGrade(name) > 0).length;
  return {
    top1: Number(getGrade(hits[0]) > 0),
    top5: Number(hits.slice(0, TOP).some((name) => getGrade(name) > 0)),
    ndcg: sumGains(hits.map(getGrade)) / sumGains(idealGrades),
    recall: foundCount / Math.min(DEPTH, idealGrades.length),
  };
}

/** Returns the means of the measures of several queries. */
export function averageRelevance(measures: readonly Relevance[]): Relevance {
  const average = (name: keyof Relevance) =>
    measures.reduce((sum, measure) => sum + measure[name], 0) / measures.length;
  return {
    top1: average('top1'),
    top5: average('top5'),
    ndcg: average('ndcg'),
    recall: average('recall'),
  };
}
