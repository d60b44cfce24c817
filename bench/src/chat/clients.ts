import { setTimeout as sleep } from 'node:timers/promises';
import { serveMethods } from '../process/child.ts';
import { median, percentiles } from '../statistics.ts';
import { ChatClient, type SocketEndpoint } from './client.ts';

/** Combined results of concurrent answers. */
export type Answers = {
  tokens: number;
  /** Median token rate of an answer. */
  tokensPerSecond: number;
  /** Percentiles of the time from writing a token to its arrival at the client, in milliseconds. */
  p50: number;
  p99: number;
  max: number;
  failures: string[];
};

/** Maximum number of sockets opened concurrently. */
const MAX_CONCURRENT_OPENS = 20;

const clients: {
  client: ChatClient;
  endpoint: SocketEndpoint;
  questions: string[];
  answers: string[];
}[] = [];

const methods = {
  /** Opens a socket to each endpoint. */
  async open(endpoints: readonly SocketEndpoint[]): Promise<void> {
    for (let first = 0; first < endpoints.length; first += MAX_CONCURRENT_OPENS) {
      const openings = endpoints
        .slice(first, first + MAX_CONCURRENT_OPENS)
        .map(async (endpoint) => {
          return { client: await ChatClient.open(endpoint), endpoint, questions: [], answers: [] };
        });
      clients.push(...(await Promise.all(openings)));
    }
  },

  /**
   * Sends one message over each of the first `streams` sockets, and waits for all answers.
   * @param withinMs Time over which the messages are spread.
   */
  async ask({ streams, withinMs }: { streams: number; withinMs: number }): Promise<Answers> {
    const answers = await Promise.all(
      clients.slice(0, streams).map(async (sender, index) => {
        await sleep((index / streams) * withinMs);
        const text = `Question ${sender.questions.length + 1} of client ${index + 1}`;
        sender.questions.push(text);
        const answer = await sender.client.ask(text);
        sender.answers.push(answer.content);
        return answer;
      }),
    );
    const ages = answers.flatMap((answer) => answer.ages);
    const [p50 = 0, p99 = 0, max = 0] = percentiles(ages, [0.5, 0.99, 1]);
    const tokensPerSecond = median(
      answers.map(({ ages: tokenAges, seconds }) => (tokenAges.length - 1) / seconds),
    );
    const failures = answers.flatMap((answer) => answer.failures);
    return { tokens: ages.length, tokensPerSecond, p50, p99, max, failures };
  },

  /** Compares the messages sent and received over each socket with its stored session, and reports stray events. */
  async checkStored(): Promise<{ storedCount: number; failures: string[] }> {
    let storedCount = 0;
    const failures = clients.flatMap(({ client }) =>
      client.strayEvents.map((type) => `unexpected event outside an answer: ${type}`),
    );
    for (const { client, endpoint, questions, answers } of clients.filter(
      (sender) => sender.questions.length > 0,
    )) {
      const storedTexts = await readMessages(endpoint, client.sessionId);
      storedCount += storedTexts.length;
      const sentTexts = questions.flatMap((text, index) => [text, answers[index] ?? '']);
      if (JSON.stringify(storedTexts) !== JSON.stringify(sentTexts)) {
        failures.push(
          `the ${storedTexts.length} stored messages of a session differ from its ${sentTexts.length} sent and received messages`,
        );
      }
    }
    return { storedCount, failures };
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
  if (response.status !== 200)
    throw new Error(`A session request failed with status ${response.status}`);
  const { messages } = (await response.json()) as { messages: { content: string }[] };
  return messages.map(({ content }) => content);
}
