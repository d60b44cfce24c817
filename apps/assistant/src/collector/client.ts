import createClient from 'openapi-fetch';
import type { components, paths } from './generated/openapi.ts';

/** The collector did not give what it was asked for; the message says why, for people. */
export class CollectorError extends Error {
  override readonly name = 'CollectorError';
}

/** A listing as the collector has it. */
export type Listing = components['schemas']['FulltextSearchResult']['listing'];
export type FulltextSearch = components['schemas']['FulltextSearchRequest'];
export type SimilarSearch = components['schemas']['SimilarSearchRequest'];

/** What listings were found; a search by meaning alone ranks all of them and has no total. */
export type Found = {
  listings: Listing[];
  total: { value: number; relation: 'eq' | 'gte' } | undefined;
};

/** The collector, as far as the assistant asks it. Every failure is a `CollectorError`. */
export type Collector = ReturnType<typeof createCollector>;

/**
 * Asks the collector through its OpenAPI document, from which the types are made.
 * @param url `COLLECTOR_URL`.
 * @param apiKey `COLLECTOR_API_KEY`; none where the collector needs none.
 */
export function createCollector({ url, apiKey }: { url: string; apiKey: string }) {
  const client = createClient<paths>({
    baseUrl: url,
    ...(apiKey !== '' && { headers: { authorization: `Bearer ${apiKey}` } }),
  });

  return {
    /** Listings that have all the words, the best first. */
    async searchWords(body: FulltextSearch, signal: AbortSignal): Promise<Found> {
      return found(await answerOf(client.POST('/api/v1/search/fulltext', { body, signal })));
    },

    /** Listings that have the words, mean the same, or both. */
    async searchBoth(body: FulltextSearch, signal: AbortSignal): Promise<Found> {
      return found(await answerOf(client.POST('/api/v1/search/hybrid', { body, signal })));
    },

    /** Listings that mean the same as a text, or are like another listing. */
    async searchSimilar(body: SimilarSearch, signal: AbortSignal): Promise<Found> {
      return found(await answerOf(client.POST('/api/v1/search/similar', { body, signal })));
    },

    /** One listing with all that is known of it. */
    findListing(listingId: number, signal: AbortSignal): Promise<Listing> {
      const params = { path: { id: String(listingId) } };
      return answerOf(client.GET('/api/v1/listings/{id}', { params, signal }));
    },
  };
}

function found({
  items,
  total,
}: {
  items: readonly { listing: Listing }[];
  total?: Found['total'];
}): Found {
  return { listings: items.map(({ listing }) => listing), total };
}

/** @throws CollectorError with what the collector says is wrong. */
async function answerOf<Data>(
  asked: Promise<{ data?: Data; error?: unknown; response: Response }>,
): Promise<Data> {
  const { data, error, response } = await asked.catch((cause: unknown) => {
    throw new CollectorError('the collector does not answer; try again later', { cause });
  });
  if (data !== undefined) return data;
  if (response.status === 401 || response.status === 403) {
    throw new CollectorError(
      'the collector does not let the assistant in: COLLECTOR_API_KEY must be one of its keys',
    );
  }
  throw new CollectorError(
    wordsOf(error) ?? `the collector answered with status ${response.status}`,
  );
}

/** What a problem document says. RFC 9457 §3.1. */
function wordsOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null) return undefined;
  const { title, detail, errors } = error as Partial<components['schemas']['Problem']>;
  if (title === undefined) return undefined;
  const rules = errors?.map(({ path, message }) => `${path} ${message}`) ?? [];
  return [title, detail, ...rules].filter(Boolean).join('. ');
}
