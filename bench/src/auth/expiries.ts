import type { Context } from '../suite.ts';
import { startAssistants, signIn } from './assistant.ts';

/** Number of refreshes of an expired access token under concurrent requests. */
export type Expiries = {
  providerMs: number;
  processes: number;
  /** Requests at the same moment, over all processes. */
  requests: number;
  /** Refresh tokens that the provider was given, for each expiry. */
  redemptions: number[];
  /** Responses with another status than 200, over all expiries. */
  refused: number;
};

const PROCESSES = 2;
const REQUESTS = 200;

/**
 * Lets access tokens expire under a crowd: each session begins with a token that has expired already,
 * and then every request of the crowd finds it so. Contract 3, Refresh: the token is redeemed once.
 * @param times How many expiries to look at.
 */
export async function measureExpiries(
  { providerMs, times }: { providerMs: number; times: number },
  { databases, signal }: Pick<Context, 'databases' | 'signal'>,
): Promise<Expiries> {
  await using database = await databases.createDatabase();
  await using scope = new AsyncDisposableStack();
  const { servers, provider } = await startAssistants(
    scope,
    { databaseUrl: database.url, signal },
    { providerMs, userMaxAgeSeconds: 0, firstTokenSeconds: 0, processes: PROCESSES },
  );
  const urls = servers.map(({ url }) => url);
  const redemptions: number[] = [];
  let refused = 0;
  for (let nth = 0; nth < times; nth += 1) {
    const cookie = await signIn(urls[nth % urls.length] ?? '', nth);
    const { refresh: before } = await provider.call('counts');
    const statuses = await Promise.all(
      Array.from({ length: REQUESTS }, async (_, request) => {
        const url = urls[request % urls.length] ?? '';
        const response = await fetch(`${url}/auth/me`, { headers: { cookie } });
        await response.body?.cancel();
        return response.status;
      }),
    );
    const { refresh: after } = await provider.call('counts');
    redemptions.push(after - before);
    refused += statuses.filter((status) => status !== 200).length;
  }
  return { providerMs, processes: PROCESSES, requests: REQUESTS, redemptions, refused };
}
