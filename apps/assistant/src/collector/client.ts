import createClient from 'openapi-fetch';
import type { components, paths } from './generated/openapi.ts';

/** The collector did not give what it was asked for; the message says why, for people. */
export class CollectorError extends Error {
  override readonly name = 'CollectorError';
  /** Of its answer; undefined where it did not answer. */
  readonly status: number | undefined;
  /** When it said to come again; undefined where it did not say. */
  readonly retryAfterSeconds: number | undefined;

  constructor(message: string, options: ErrorOptions & { response?: Response } = {}) {
    super(message, options);
    this.status = options.response?.status;
    const seconds = Number(options.response?.headers.get('retry-after') ?? NaN);
    this.retryAfterSeconds = seconds >= 0 ? seconds : undefined;
  }
}

/** A listing as the collector has it. */
export type Listing = components['schemas']['FulltextSearchResult']['listing'];
export type FulltextSearch = components['schemas']['FulltextSearchRequest'];
export type SimilarSearch = components['schemas']['SimilarSearchRequest'];
export type MatchesRequest = components['schemas']['SearchMatchesRequest'];

/** A page of the feed of changes. */
export type ChangesPage =
  paths['/api/v1/listings/changes']['get']['responses'][200]['content']['application/json'];

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

    /**
     * What happened to listings after a place in the feed, at most 100 changes.
     * @param after The cursor of the page before; without it the page is empty, and its cursor is that of now.
     */
    listChanges(after: string | undefined, signal: AbortSignal): Promise<ChangesPage> {
      const params = { query: after === undefined ? {} : { after } };
      return answerOf(client.GET('/api/v1/listings/changes', { params, signal }));
    },

    /** Which of some listings a search finds, at most 100. */
    async findMatches(body: MatchesRequest, signal: AbortSignal): Promise<Listing[]> {
      return found(await answerOf(client.POST('/api/v1/search/matches', { body, signal })))
        .listings;
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
      { response },
    );
  }
  throw new CollectorError(
    wordsOf(error) ?? `the collector answered with status ${response.status}`,
    { response },
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
