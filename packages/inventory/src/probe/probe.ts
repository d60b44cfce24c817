import { endpointOf, type Endpoint } from '../endpoint.ts';
import { toDay } from '../day.ts';
import type { EndpointRecord } from '../record.ts';
import { transportOf } from '../url.ts';
import { type Certificate, open, readCertificate, resolve } from './connect.ts';
import { exposureProblems } from './exposure.ts';
import { type Answer, askHead } from './http-status.ts';
import { distrustReason, failureReason } from './reasons.ts';

/** What is wrong with an endpoint as it was found. The codes are stable. */
export const PROBE_CODES = [
  'probe/unreachable',
  'probe/silent',
  'probe/http-error',
  'probe/certificate-ended',
  'probe/certificate-ends',
  'probe/certificate-untrusted',
  'probe/certificate-name',
  'probe/exposure',
] as const;

export type ProbeProblem = {
  code: (typeof PROBE_CODES)[number];
  message: string;
};

/** What was found where a record says that there is an endpoint. */
export type Observation = {
  id: string;
  /** `HOST:PORT`; null when the record does not say where it is. */
  target: string | null;
  /** Whether a connection opened; null when none was tried: the record says nowhere to, or has datagrams there. */
  isReachable: boolean | null;
  /** The addresses that the name has, as seen from here. */
  addresses: string[];
  certificate?: Certificate;
  answer?: Answer;
  problems: ProbeProblem[];
};

export type ProbeOptions = {
  /** For all of one endpoint: name, connection, TLS and answer. */
  timeoutMs?: number;
  /** A certificate that ends sooner is a problem. */
  expiryDays?: number;
  /** Certificates (PEM) that are trusted instead of those of Node. */
  ca?: string | undefined;
  /** When it is, in milliseconds since 1970. */
  now?: number;
  signal?: AbortSignal | undefined;
};

const DAY_MS = 86_400_000;
/** What servers answer that know GET, but not HEAD (RFC 9110 §15.6.2): they work. */
const NOT_IMPLEMENTED = 501;

/**
 * Looks at the endpoint of one record: whether a connection opens, how long its certificate lasts, what it
 * answers to HTTP, and whether its addresses fit the declared exposure. It connects to the host and port that
 * the record names and to nothing else; redirects are not followed. It never throws for what it finds.
 */
export async function probeRecord(
  record: EndpointRecord,
  options: ProbeOptions = {},
): Promise<Observation> {
  const { timeoutMs = 5000, signal } = options;
  const { id } = record;
  const endpoint = endpointOf(record);
  if (endpoint === null) {
    return { id, target: null, isReachable: null, addresses: [], problems: [] };
  }
  const { host, port, protocol } = endpoint;
  const target = `${host}:${port}`;
  // Nobody connects to what takes datagrams, so nothing can be said of it here.
  if (transportOf(protocol) === 'udp') {
    return { id, target, isReachable: null, addresses: [], problems: [] };
  }
  const found: Observation = {
    id,
    target,
    isReachable: false,
    addresses: [],
    problems: [],
  };
  const ending = new AbortController();
  const timer = setTimeout(() => ending.abort(), timeoutMs);
  const either = AbortSignal.any([ending.signal, ...(signal === undefined ? [] : [signal])]);
  try {
    await look(found, { record, endpoint, options, signal: either });
  } catch (error) {
    signal?.throwIfAborted();
    found.problems.push(failure(error, found, timeoutMs));
  } finally {
    clearTimeout(timer);
    ending.abort();
  }
  return found;
}

type Probe = {
  record: EndpointRecord;
  endpoint: Endpoint;
  options: ProbeOptions;
  signal: AbortSignal;
};

/** Writes what it finds into the observation as it goes, so that it stays when a later step fails. */
async function look(found: Observation, probe: Probe): Promise<void> {
  const { record, endpoint, options, signal } = probe;
  const { host, port, protocol, url } = endpoint;
  const addresses = await race(resolve(host), signal);
  found.addresses = addresses.map(({ address }) => address);
  const plain = await open(addresses, { host, port, signal });
  found.isReachable = true;
  found.problems.push(...exposureProblems(record, found.addresses));
  let socket = plain;
  try {
    if (transportOf(protocol) === 'tls') {
      const secure = await race(readCertificate(plain, { host, ca: options.ca }), signal);
      socket = secure.socket;
      found.certificate = secure.certificate;
      found.problems.push(...certificateProblems(secure.certificate, host, options));
    }
    if (url !== null && (protocol === 'http' || protocol === 'https')) {
      found.answer = await askHead(socket, { host, url, signal });
      if (found.answer.status >= 500 && found.answer.status !== NOT_IMPLEMENTED) {
        const message = `it answers ${found.answer.status}`;
        found.problems.push({ code: 'probe/http-error', message });
      }
    }
  } finally {
    socket.destroy();
    plain.destroy();
  }
}

function certificateProblems(
  { validTo, problem, isForName }: Certificate,
  host: string,
  { now = Date.now(), expiryDays = 14 }: ProbeOptions,
): ProbeProblem[] {
  const problems: ProbeProblem[] = [];
  const days = Math.floor((validTo.getTime() - now) / DAY_MS);
  const day = toDay(validTo);
  if (days < 0) {
    problems.push({ code: 'probe/certificate-ended', message: `its certificate ended on ${day}` });
  } else if (days < expiryDays) {
    const message = `its certificate ends on ${day}, in ${days} days`;
    problems.push({ code: 'probe/certificate-ends', message });
  }
  if (!isForName) {
    const message = `its certificate is not for ${host}`;
    problems.push({ code: 'probe/certificate-name', message });
  }
  // OpenSSL says so of any certificate of the chain; its own end is told above.
  if (problem !== null && !(problem === 'CERT_HAS_EXPIRED' && days < 0)) {
    const message = `its certificate is not trusted: ${distrustReason(problem)}`;
    problems.push({ code: 'probe/certificate-untrusted', message });
  }
  return problems;
}

function failure(error: unknown, { isReachable }: Observation, timeoutMs: number): ProbeProblem {
  const code = isReachable ? 'probe/silent' : 'probe/unreachable';
  const isTimeout = error instanceof Error && error.name === 'AbortError';
  if (isTimeout) {
    const what = isReachable ? 'it opens a connection, and says nothing' : 'no connection opens';
    return { code, message: `${what} within ${timeoutMs / 1000} s` };
  }
  const what = isReachable ? 'the connection fails' : 'no connection opens';
  return { code, message: `${what}: ${failureReason(error)}` };
}

/** For what takes no signal: it goes on by itself, and nobody waits for it. */
function race<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const aborted = new Promise<never>((_, fail) => {
    signal.addEventListener('abort', () => fail(signal.reason as Error), { once: true });
  });
  return Promise.race([work, aborted]);
}
