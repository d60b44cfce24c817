import { hash } from 'node:crypto';
import createClient from 'openapi-fetch';
import type { components, paths } from './generated/openapi.ts';

/** Thrown for a failed request to the collector, with a message for users. `status` is undefined without a response. */
export class CollectorError extends Error {
  override readonly name = 'CollectorError';
  readonly status: number | undefined;
  readonly retryAfterSeconds: number | undefined;

  constructor(message: string, options: ErrorOptions & { response?: Response } = {}) {
    super(message, options);
    this.status = options.response?.status;
    const seconds = Number(options.response?.headers.get('retry-after') ?? NaN);
    this.retryAfterSeconds = seconds >= 0 ? seconds : undefined;
  }
}

export type Listing = components['schemas']['Listing'];
/** A search and the listings to match against it. */
export type MatchesRequest = components['schemas']['SearchMatchesRequest'];

type SearchRequest = components['schemas']['FulltextSearchRequest'];
type SimilarRequest = components['schemas']['SimilarSearchRequest'];

export type ChangesPage =
  paths['/api/v1/listings/changes']['get']['responses'][200]['content']['application/json'];

/** Search results. A purely semantic search ranks all listings and has no total. */
export type ListingPage = {
  listings: Listing[];
  total: { value: number; relation: 'eq' | 'gte' } | undefined;
};

/** Maximum time until a response to `fetch` begins. The collector ends a retry of many payloads after 50 s. */
const RESPONSE_TIMEOUT_MS = 60_000;

/** The client of the collector API. Except for `fetch`, every failed request throws a `CollectorError`. */
export type CollectorClient = ReturnType<typeof createMethods> & {
  /** Returns a client whose requests count against the search limits of one user. */
  forUser: (userId: string) => CollectorClient;
};

type ClientOptions = {
  url: string;
  /** COLLECTOR_API_KEY; empty if the collector needs none. */
  apiKey: string;
  /** The user who shares the search limits of no other user. */
  userId?: string;
};

/** Creates a collector client. Its types are generated from the collector's OpenAPI document. */
export function createCollectorClient(options: ClientOptions): CollectorClient {
  const forUser = (userId: string) => createCollectorClient({ ...options, userId });
  return { ...createMethods(options), forUser };
}

function createMethods({ url, apiKey, userId }: ClientOptions) {
  const headers = {
    ...(apiKey !== '' && { authorization: `Bearer ${apiKey}` }),
    // The ID itself is personal data, and may contain any character.
    ...(userId !== undefined && { 'x-on-behalf-of': hash('sha256', userId, 'base64url') }),
  };
  const client = createClient<paths>({ baseUrl: url, headers });

  return {
    /**
     * Sends a request to a path below `/api/v1`, with a body as JSON. The method is POST if there is a body, otherwise GET.
     * Rejects if no response begins within a minute.
     */
    async fetch(path: string, options: { method?: string; body?: object | undefined } = {}) {
      const { body, method = body === undefined ? 'GET' : 'POST' } = options;
      const controller = new AbortController();
      const timer = setTimeout(() => controller.abort(), RESPONSE_TIMEOUT_MS);
      try {
        return await fetch(`${url}/api/v1${path}`, {
          method,
          headers: {
            ...headers,
            ...(body !== undefined && { 'content-type': 'application/json' }),
          },
          body: body === undefined ? null : JSON.stringify(body),
          redirect: 'error',
          signal: controller.signal,
        });
      } finally {
        clearTimeout(timer);
      }
    },

    /** Searches listings by words, or by words and meaning. The best matches come first. */
    async search(
      mode: 'fulltext' | 'hybrid',
      body: SearchRequest,
      signal: AbortSignal,
    ): Promise<ListingPage> {
      // Both modes have the same request and response.
      const path = `/api/v1/search/${mode}` as '/api/v1/search/hybrid';
      return toPage(await readResponse(client.POST(path, { body, signal })));
    },

    /** Finds listings that are similar to text or to another listing. */
    async searchSimilar(body: SimilarRequest, signal: AbortSignal): Promise<ListingPage> {
      return toPage(await readResponse(client.POST('/api/v1/search/similar', { body, signal })));
    },

    /**
     * Lists at most 100 changes of listings after a cursor.
     * @param after The cursor of the previous page. Without a cursor, the page is empty and has the current cursor.
     */
    listChanges(after: string | undefined, signal: AbortSignal): Promise<ChangesPage> {
      const params = { query: after === undefined ? {} : { after } };
      return readResponse(client.GET('/api/v1/listings/changes', { params, signal }));
    },

    /** Returns those of at most 100 given listings that match a search. */
    async findMatches(body: MatchesRequest, signal: AbortSignal): Promise<Listing[]> {
      const page = await readResponse(client.POST('/api/v1/search/matches', { body, signal }));
      return toPage(page).listings;
    },

    findListing(listingId: number, signal: AbortSignal): Promise<Listing> {
      const params = { path: { id: String(listingId) } };
      return readResponse(client.GET('/api/v1/listings/{id}', { params, signal }));
    },
  };
}

type ResultPage = { items: readonly { listing: Listing }[]; total?: ListingPage['total'] };

function toPage({ items, total }: ResultPage): ListingPage {
  return { listings: items.map(({ listing }) => listing), total };
}

/** Returns the data of a successful response. @throws CollectorError */
async function readResponse<Data>(
  request: Promise<{ data?: Data; error?: unknown; response: Response }>,
): Promise<Data> {
  const { data, error, response } = await request.catch((cause: unknown) => {
    throw new CollectorError('the collector does not respond; try again later', { cause });
  });
  if (data !== undefined) return data;
  if (response.status === 401 || response.status === 403) {
    throw new CollectorError(
      'the collector denied access: COLLECTOR_API_KEY must be one of its keys',
      { response },
    );
  }
  const message = formatProblem(error) ?? `the collector responded with status ${response.status}`;
  throw new CollectorError(message, { response });
}

/** Formats a problem document as a message. RFC 9457 §3.1. */
function formatProblem(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null) return undefined;
  const { title, detail, errors } = error as Partial<components['schemas']['Problem']>;
  if (title === undefined) return undefined;
  const rules = errors?.map(({ path, message }) => `${path} ${message}`) ?? [];
  return [title, detail, ...rules].filter(Boolean).join('. ');
}
