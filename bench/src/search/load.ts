import { Agent, request as sendRequest } from 'node:http';
import { performance } from 'node:perf_hooks';
import { text } from 'node:stream/consumers';
import { serveMethods } from '../process/child.ts';
import { createBody, formatGroup, type Question } from './questions.ts';

export type Load = {
  url: string;
  questions: readonly Question[];
  clients: number;
  seconds: number;
};

export type Outcome = {
  /** Latencies in milliseconds by group. */
  latencies: Record<string, number[]>;
  /** Responses with a status other than 200. */
  unexpectedResponses: string[];
  seconds: number;
};

const methods = { run };
export type LoadGenerator = typeof methods;
serveMethods(methods);

/**
 * Runs concurrent clients that take the questions in order. Each client waits for a response before its next request.
 */
async function run({ url, questions, clients, seconds }: Load): Promise<Outcome> {
  const agent = new Agent({ keepAlive: true, maxSockets: clients });
  const prepared = questions.map((question) => ({
    group: formatGroup(question),
    url: `${url}/api/v1/search/${question.kind}`,
    body: Buffer.from(JSON.stringify(createBody(question))),
  }));
  const latencies: Record<string, number[]> = {};
  const unexpectedResponses: string[] = [];
  const startedAt = performance.now();
  let searches = 0;

  async function work(): Promise<void> {
    while (performance.now() - startedAt < seconds * 1000) {
      const question = prepared[searches % prepared.length];
      if (question === undefined) throw new Error('There are no questions');
      searches += 1;
      const sentAt = performance.now();
      const { status, body } = await post(agent, question);
      (latencies[question.group] ??= []).push(performance.now() - sentAt);
      if (status !== 200) {
        unexpectedResponses.push(`${question.group}: ${status} ${body.slice(0, 200)}`);
      }
    }
  }

  await Promise.all(Array.from({ length: clients }, work));
  agent.destroy();
  return { latencies, unexpectedResponses, seconds: (performance.now() - startedAt) / 1000 };
}

function post(
  agent: Agent,
  { url, body }: { url: string; body: Buffer },
): Promise<{ status: number | undefined; body: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{
    status: number | undefined;
    body: string;
  }>();
  const headers = { 'content-type': 'application/json', 'content-length': body.length };
  const request = sendRequest(url, { method: 'POST', agent, headers }, (response) => {
    text(response).then(
      (responseBody) => resolve({ status: response.statusCode, body: responseBody }),
      reject,
    );
  });
  request.on('error', reject);
  request.end(body);
  return promise;
}
