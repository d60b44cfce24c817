import { setTimeout as sleep } from 'node:timers/promises';
import { serveMethods } from '../process/child.ts';
import { median, percentiles } from '../statistics.ts';
import { ChatClient, type SocketEndpoint } from './client.ts';

/** Results of concurrent messages. */
export type Answers = {
  tokens: number;
  /** Median of the answers' rates in tokens per second. */
  perSecond: number;
  /** Percentiles of the time from writing a token to its arrival at the client, in milliseconds. */
  p50: number;
  p99: number;
  max: number;
  failures: string[];
};

/** Number of sockets opened concurrently. */
const MAX_CONCURRENT_OPENS = 20;

const clients: {
  client: ChatClient;
  endpoint: SocketEndpoint;
  asked: string[];
  answered: string[];
}[] = [];

const methods = {
  /** Opens a socket to each endpoint. */
  async open(endpoints: readonly SocketEndpoint[]): Promise<void> {
    for (let first = 0; first < endpoints.length; first += MAX_CONCURRENT_OPENS) {
      const opened = endpoints.slice(first, first + MAX_CONCURRENT_OPENS).map(async (endpoint) => {
        return { client: await ChatClient.open(endpoint), endpoint, asked: [], answered: [] };
      });
      clients.push(...(await Promise.all(opened)));
    }
  },

  /**
   * Sends one message over each of the first sockets, and waits for all answers.
   * @param withinMs Time from the first message to the last.
   */
  async ask({ streams, withinMs }: { streams: number; withinMs: number }): Promise<Answers> {
    const answers = await Promise.all(
      clients.slice(0, streams).map(async (one, nth) => {
        await sleep((nth / streams) * withinMs);
        const text = `Question ${one.asked.length + 1} of client ${nth + 1}`;
        one.asked.push(text);
        const answered = await one.client.ask(text);
        one.answered.push(answered.content);
        return answered;
      }),
    );
    const ages = answers.flatMap((answer) => answer.ages);
    const [p50 = 0, p99 = 0, max = 0] = percentiles(ages, [0.5, 0.99, 1]);
    const perSecond = median(answers.map((one) => (one.ages.length - 1) / one.seconds));
    const failures = answers.flatMap((answer) => answer.failures);
    return { tokens: ages.length, perSecond, p50, p99, max, failures };
  },

  /** Compares the messages of each socket with the stored session. */
  async checkStored(): Promise<{ stored: number; failures: string[] }> {
    let stored = 0;
    const failures = clients.flatMap(({ client }) =>
      client.strayEvents.map((type) => `${type} came after an end`),
    );
    for (const { client, endpoint, asked, answered } of clients.filter(
      (one) => one.asked.length > 0,
    )) {
      const found = await readMessages(endpoint, client.sessionId);
      stored += found.length;
      const said = asked.flatMap((text, nth) => [text, answered[nth] ?? '']);
      if (JSON.stringify(found) !== JSON.stringify(said)) {
        failures.push(
          `a session has ${found.length} messages, not just the ${said.length} that were said`,
        );
      }
    }
    return { stored, failures };
  },

  close(): void {
    for (const { client } of clients.splice(0)) client.close();
  },
};
export type Clients = typeof methods;
serveMethods(methods);

/** Returns the texts of a session's messages in order. */
async function readMessages(
  { url, cookie = '' }: SocketEndpoint,
  sessionId: string,
): Promise<string[]> {
  const response = await fetch(`${url}/sessions/${sessionId}`, { headers: { cookie } });
  if (response.status !== 200) throw new Error(`A session answered ${response.status}`);
  const { messages } = (await response.json()) as { messages: { content: string }[] };
  return messages.map(({ content }) => content);
}
