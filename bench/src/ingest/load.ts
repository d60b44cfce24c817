import { connect, type Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { serveMethods } from '../process/child.ts';
import { percentiles } from '../statistics.ts';
import { ID_DIGITS, createPayload, getSourceSlug, SOURCES } from './payload.ts';

export type Load = { url: string; connections: number; seconds: number; firstId: number };

/** Results of a run, with latencies in milliseconds. */
export type Outcome = {
  sent: number;
  accepted: number;
  seconds: number;
  latency: { p50: number; p99: number; max: number };
  /** Number of responses by status, except 202. */
  otherStatusCounts: Record<string, number>;
};

const PATH = '/api/v1/ingest';

const methods = { run };
export type LoadGenerator = typeof methods;
serveMethods(methods);

/**
 * Posts payloads over concurrent connections, each of which waits for a response before its next request. Requests are
 * built in advance except for the listing ID, because a slow generator would limit the measured rate.
 */
async function run({ url, connections, seconds, firstId }: Load): Promise<Outcome> {
  const { hostname, port } = new URL(url);
  const requests = Array.from({ length: SOURCES }, (_, source) => createRequest(hostname, source));
  const latencies: number[] = [];
  const otherStatusCounts: Record<string, number> = {};
  const startedAt = performance.now();
  const endsAt = startedAt + seconds * 1000;
  let sentCount = 0;
  let acceptedCount = 0;

  async function work(): Promise<void> {
    const socket = connect(Number(port), hostname).setNoDelay(true);
    const statuses = readStatuses(socket);
    while (performance.now() < endsAt) {
      const sentAt = performance.now();
      const request = requests[sentCount % SOURCES];
      if (request === undefined) throw new Error('There are no sources');
      socket.write(request(firstId + sentCount));
      sentCount += 1;
      const { value: status, done } = await statuses.next();
      if (done === true) throw new Error(`${url} closed a connection`);
      latencies.push(performance.now() - sentAt);
      if (status === '202') acceptedCount += 1;
      else otherStatusCounts[status] = (otherStatusCounts[status] ?? 0) + 1;
    }
    socket.destroy();
  }

  await Promise.all(Array.from({ length: connections }, work));
  const elapsed = performance.now() - startedAt;
  const [p50 = 0, p99 = 0, max = 0] = percentiles(latencies, [0.5, 0.99, 1]);
  return {
    sent: sentCount,
    accepted: acceptedCount,
    seconds: elapsed / 1000,
    latency: { p50, p99, max },
    otherStatusCounts,
  };
}

/** Spreads consecutive listing IDs over the index, as pgbench's random ones. Different IDs stay different. */
const ID_FACTOR = 7_654_321;

/** Returns a function that creates the request for the given listing ID. */
function createRequest(host: string, source: number): (id: number) => Buffer {
  const placeholder = '#'.repeat(ID_DIGITS);
  const body = JSON.stringify(createPayload(getSourceSlug(source), placeholder));
  const template = Buffer.from(
    `POST ${PATH} HTTP/1.1\r\nHost: ${host}\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  const offsets: number[] = [];
  for (
    let at = template.indexOf(placeholder);
    at !== -1;
    at = template.indexOf(placeholder, at + 1)
  ) {
    offsets.push(at);
  }
  return (id) => {
    const request = Buffer.from(template);
    const digits = String((id * ID_FACTOR) % 10 ** ID_DIGITS).padStart(ID_DIGITS, '0');
    for (const at of offsets) request.write(digits, at, 'latin1');
    return request;
  };
}

/** Yields the status of each response on a connection. */
async function* readStatuses(socket: Socket): AsyncGenerator<string, void> {
  let buffer = '';
  for await (const chunk of socket) {
    buffer += (chunk as Buffer).toString('latin1');
    for (let end = findResponseEnd(buffer); end !== -1; end = findResponseEnd(buffer)) {
      yield buffer.slice('HTTP/1.1 '.length, 'HTTP/1.1 200'.length);
      buffer = buffer.slice(end);
    }
  }
}

/** Returns the offset at which the first response ends, or -1 if the response is incomplete. */
function findResponseEnd(text: string): number {
  const bodyAt = text.indexOf('\r\n\r\n') + 4;
  if (bodyAt < 4) return -1;
  const length = /^content-length: (\d+)\r$/im.exec(text.slice(0, bodyAt))?.[1];
  if (length === undefined) throw new Error('A response has no Content-Length');
  const end = bodyAt + Number(length);
  return text.length >= end ? end : -1;
}
