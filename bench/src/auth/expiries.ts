import type { Context } from '../suite.ts';
import { startAssistants, signIn } from './assistant.ts';

/** Token refreshes by concurrent requests in sessions whose access token has expired. */
export type Expiries = {
  providerMs: number;
  processes: number;
  /** Total number of concurrent requests to all processes. */
  requests: number;
  /** Number of attempts to redeem a refresh token, for each expiry. */
  redemptions: number[];
  /** Number of responses with a status other than 200, across all expiries. */
  failedCount: number;
};

const PROCESS_COUNT = 2;
const REQUEST_COUNT = 200;

/**
 * Sends concurrent requests in sessions whose access token has expired. Each refresh token must be redeemed exactly
 * once (Contract 3, Refresh).
 * @param times Number of sessions, measured one after another.
 * @returns The redemptions of each session, and the number of failed requests.
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
    { providerMs, userMaxAgeSeconds: 0, firstTokenSeconds: 0, processes: PROCESS_COUNT },
  );
  const urls = servers.map(({ url }) => url);
  const redemptions: number[] = [];
  let failedCount = 0;
  for (let user = 0; user < times; user += 1) {
    const cookie = await signIn(urls[user % urls.length] ?? '', user);
    const { refresh: before } = await provider.call('counts');
    const statuses = await Promise.all(
      Array.from({ length: REQUEST_COUNT }, async (_, request) => {
        const url = urls[request % urls.length] ?? '';
        const response = await fetch(`${url}/auth/me`, { headers: { cookie } });
        await response.body?.cancel();
        return response.status;
      }),
    );
    const { refresh: after } = await provider.call('counts');
    redemptions.push(after - before);
    failedCount += statuses.filter((status) => status !== 200).length;
  }
  return {
    providerMs,
    processes: PROCESS_COUNT,
    requests: REQUEST_COUNT,
    redemptions,
    failedCount,
  };
}
