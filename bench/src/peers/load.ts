import { serveMethods } from '../process/child.ts';
import type { Client, Request } from './engine.ts';
import { loadEngine } from './engines.ts';

export type Load = {
  engine: string;
  urls: readonly string[];
  requests: readonly Request[];
  clients: number;
  seconds: number;
};

/** Results of a run, with latencies in milliseconds. */
export type Outcome = { latencies: number[]; seconds: number };

const methods = { run };
export type LoadGenerator = typeof methods;
serveMethods(methods);

/** Runs concurrent clients that take the requests in order. Each waits for a response before its next request. */
async function run({ engine, urls, requests, clients, seconds }: Load): Promise<Outcome> {
  const loadedEngine = await loadEngine(engine);
  const connected = await Promise.all(
    Array.from({ length: clients }, (_, index) =>
      loadedEngine.connect(urls[index % urls.length] ?? ''),
    ),
  );
  const latencies: number[] = [];
  let sentCount = 0;
  const startedAt = performance.now();

  async function work(client: Client): Promise<void> {
    while (performance.now() - startedAt < seconds * 1000) {
      const request = requests[sentCount % requests.length];
      if (request === undefined) throw new Error('There are no requests');
      sentCount += 1;
      const sentAt = performance.now();
      await client.send(request);
      latencies.push(performance.now() - sentAt);
    }
  }

  await Promise.all(connected.map(work));
  const elapsed = (performance.now() - startedAt) / 1000;
  await Promise.all(connected.map((client) => client.close()));
  return { latencies, seconds: elapsed };
}
