/** 97.5 % quantile of the normal distribution, for intervals of 95 %. */
const QUANTILE = 1.959964;

/**
 * Computes the 95 % confidence interval of a share. It holds for few observations and for shares near 0 and 1.
 * @returns The bounds, or null if there are no observations.
 * @see https://en.wikipedia.org/wiki/Binomial_proportion_confidence_interval#Wilson_score_interval
 */
export function computeWilsonInterval(
  correct: number,
  total: number,
): [low: number, high: number] | null {
  if (total === 0) return null;
  const share = correct / total;
  const square = QUANTILE ** 2 / total;
  const centre = (share + square / 2) / (1 + square);
  const margin =
    (QUANTILE * Math.sqrt((share * (1 - share)) / total + square / (4 * total))) / (1 + square);
  return [Math.max(0, centre - margin), Math.min(1, centre + margin)];
}

/**
 * Computes the p-value of McNemar's exact test, two-sided: how likely such a difference is if both runs are equally good.
 * @param gained Number of texts that only the first run has right.
 * @param lost Number of texts that only the second run has right.
 * @see https://en.wikipedia.org/wiki/McNemar%27s_test
 */
export function computeMcNemarP(gained: number, lost: number): number {
  const total = gained + lost;
  // Logarithms, because the probability of a single outcome underflows above 1,074 texts.
  let logProbability = -total * Math.LN2;
  let tail = Math.exp(logProbability);
  for (let count = 1; count <= Math.min(gained, lost); count += 1) {
    logProbability += Math.log((total - count + 1) / count);
    tail += Math.exp(logProbability);
  }
  return Math.min(1, 2 * tail);
}
