import { Value } from 'typebox/value';
import {
  type CollectorAddress,
  noCollector,
  refusal,
  requestCollector,
} from '../collector-client.ts';
import { CommandError } from '../command-error.ts';
import { type Answer, answerSchema } from './answer.ts';

/**
 * Has the collector search.
 * @param kind The search's name in the API. Contract 4, Search.
 * @returns All that the collector answered, of which `Answer` is known.
 * @throws CommandError where it cannot be reached, refuses, or is no collector.
 */
export async function askCollector(
  collector: CollectorAddress,
  kind: 'fulltext' | 'similar',
  question: { query: string; limit: number },
): Promise<Answer> {
  const answer = await requestCollector(collector, `/api/v1/search/${kind}`, {
    method: 'POST',
    body: question,
  });
  if (answer.status === 200 && Value.Check(answerSchema, answer.body)) return answer.body;
  if (answer.status < 400) throw noCollector(collector.url);
  throw new CommandError(refusal(answer, { what: 'the search', scope: 'search' }));
}
