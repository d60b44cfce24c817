import { connect, type Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { serveMethods } from '../process/child.ts';
import { percentiles } from '../statistics.ts';
import { ID_DIGITS, createPayload, getSourceSlug, SOURCES } from './payload.ts';

/** Load for a server. */
export type Load = { url: string; connections: number; seconds: number; firstId: number };

/** Results. Latencies are in milliseconds. */
export type Outcome = {
  sent: number;
  accepted: number;
  seconds: number;
  latency: { p50: number; p99: number; max: number };
  /** Answers by status, of those that were not 202. */
  others: Record<string, number>;
};

const PATH = '/api/v1/ingest';

const methods = { run };
export type LoadGenerator = typeof methods;
serveMethods(methods);

/**
 * Posts payloads over connections, each of which sends the next request after an answer. Every
 * payload is a different listing. The requests are made beforehand but for a few digits, because on two
 * cores a generator that takes its time measures itself.
 */
async function run({ url, connections, seconds, firstId }: Load): Promise<Outcome> {
  const { hostname, port } = new URL(url);
  const requests = Array.from({ length: SOURCES }, (_, source) => createRequest(hostname, source));
  const latencies: number[] = [];
  const others: Record<string, number> = {};
  const started = performance.now();
  const until = started + seconds * 1000;
  let sent = 0;
  let accepted = 0;

  async function work(): Promise<void> {
    const socket = connect(Number(port), hostname).setNoDelay(true);
    const answers = answersOn(socket);
    while (performance.now() < until) {
      const begun = performance.now();
      const request = requests[sent % SOURCES];
      if (request === undefined) throw new Error('There are no sources');
      socket.write(request(firstId + sent));
      sent += 1;
      const { value: status, done } = await answers.next();
      if (done === true) throw new Error(`${url} closed a connection`);
      latencies.push(performance.now() - begun);
      if (status === '202') accepted += 1;
      else others[status] = (others[status] ?? 0) + 1;
    }
    socket.destroy();
  }

  await Promise.all(Array.from({ length: connections }, work));
  const elapsed = performance.now() - started;
  const [p50 = 0, p99 = 0, max = 0] = percentiles(latencies, [0.5, 0.99, 1]);
  return { sent, accepted, seconds: elapsed / 1000, latency: { p50, p99, max }, others };
}

/** Makes the function that gives the request for an id. */
function createRequest(host: string, source: number): (id: number) => Buffer {
  const placeholder = '#'.repeat(ID_DIGITS);
  const body = JSON.stringify(createPayload(getSourceSlug(source), placeholder));
  const template = Buffer.from(
    `POST ${PATH} HTTP/1.1\r\nHost: ${host}\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  const places: number[] = [];
  for (
    let at = template.indexOf(placeholder);
    at !== -1;
    at = template.indexOf(placeholder, at + 1)
  ) {
    places.push(at);
  }
  return (id) => {
    const request = Buffer.from(template);
    const digits = String(id).padStart(ID_DIGITS, '0');
    for (const at of places) request.write(digits, at, 'latin1');
    return request;
  };
}

/** The status of each answer on a connection. */
async function* answersOn(socket: Socket): AsyncGenerator<string, void> {
  let rest = '';
  for await (const chunk of socket) {
    rest += (chunk as Buffer).toString('latin1');
    for (let end = endOfAnswer(rest); end !== -1; end = endOfAnswer(rest)) {
      yield rest.slice('HTTP/1.1 '.length, 'HTTP/1.1 200'.length);
      rest = rest.slice(end);
    }
  }
}

/** Returns the end of the first answer; -1 while it is incomplete. */
function endOfAnswer(text: string): number {
  const bodyAt = text.indexOf('\r\n\r\n') + 4;
  if (bodyAt < 4) return -1;
  const length = /^content-length: (\d+)\r$/im.exec(text.slice(0, bodyAt))?.[1];
  if (length === undefined) throw new Error('An answer does not say how long it is');
  const end = bodyAt + Number(length);
  return text.length >= end ? end : -1;
}
