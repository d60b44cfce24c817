import type { Running } from './variant.ts';

/**
 * Asks once for each target, all at the same time, and gives what was answered wrongly: an answer that
 * is not 200, or that does not tell of the user who asked.
 */
export async function checkAnswers(
  { url }: Pick<Running, 'url'>,
  targets: Awaited<ReturnType<Running['targets']>>,
): Promise<string[]> {
  const answers = await Promise.all(
    targets.map(async ({ path, headers, expected }) => {
      const response = await fetch(url + path, { headers });
      const body = await response.text();
      if (response.status !== 200) return `${path} answered ${response.status}`;
      return body.includes(expected) ? undefined : `${path} answered for somebody else`;
    }),
  );
  return answers.filter((answer) => answer !== undefined);
}
