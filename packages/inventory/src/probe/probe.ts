import { setTimeout as sleep } from 'node:timers/promises';
import { type Endpoint, getNetworkScope, getTransport, parseEndpoint } from '../address.ts';
import { toDay } from '../day.ts';
import type { EndpointRecord } from '../record.ts';
import {
  type Certificate,
  explainDistrust,
  explainFailure,
  type HeadResponse,
  openConnection,
  readCertificate,
  requestHead,
} from './connect.ts';

/** Stable codes of problems. */
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

export type ProbeProblem = { code: (typeof PROBE_CODES)[number]; message: string };

export type Observation = {
  id: string;
  /** `HOST:PORT`. Null if the record lacks the host or the port. */
  target: string | null;
  /** Whether a connection succeeded. Null without a target or for UDP protocols, which are not probed. */
  isReachable: boolean | null;
  /** IP addresses of the host, as resolved on this machine. */
  addresses: string[];
  certificate?: Certificate;
  answer?: HeadResponse;
  problems: ProbeProblem[];
};

export type ProbeOptions = {
  /** Time limit for all steps of one endpoint in milliseconds. Defaults to 5000. */
  timeoutMs?: number;
  /** Minimum remaining validity of a certificate in days. Defaults to 14. */
  expiryDays?: number;
  /** Trusted certificates (PEM) that replace the certificates of Node. */
  ca?: string | undefined;
  /** Current time in milliseconds since 1970. */
  now?: number;
  signal?: AbortSignal | undefined;
};

export const MAX_CONCURRENT_PROBES = 64;
export const MAX_PROBES_PER_SECOND = 1000;

export type ProbeAllOptions = {
  /** Maximum concurrent probes, up to 64. Defaults to 4. */
  concurrency?: number;
  /** Maximum probes started per second, up to 1000. Defaults to 5. */
  perSecond?: number;
} & ProbeOptions;

type FinishedProbe = { observation: Observation; promise: Promise<FinishedProbe> };

/**
 * Probes the endpoints of records at a limited rate, because faster probes resemble an attack. Yields each
 * observation as soon as it is known. No probe starts while observations wait to be consumed.
 * @throws RangeError for limits out of range, errors of the record iterator, and the abort reason of the signal.
 */
export async function* probeAll(
  records: Iterable<EndpointRecord>,
  { concurrency = 4, perSecond = 5, signal, ...options }: ProbeAllOptions = {},
): AsyncGenerator<Observation, void, undefined> {
  checkRange('concurrency', concurrency, MAX_CONCURRENT_PROBES);
  checkRange('perSecond', perSecond, MAX_PROBES_PER_SECOND);
  const ending = new AbortController();
  const either = combineSignals(ending.signal, signal);
  const inProgress = new Set<Promise<FinishedProbe>>();
  let pause: Promise<null> | null = null;
  try {
    for (const record of records) {
      while (pause !== null || inProgress.size >= concurrency) {
        const waiting = pause !== null && inProgress.size < concurrency ? [pause] : [];
        const first: FinishedProbe | null = await Promise.race([...inProgress, ...waiting]);
        if (first === null) pause = null;
        else {
          inProgress.delete(first.promise);
          yield first.observation;
        }
      }
      signal?.throwIfAborted();
      const promise: Promise<FinishedProbe> = probeRecord(record, {
        ...options,
        signal: either,
      }).then((observation) => ({ observation, promise }));
      // If several probes fail, only the first failure is awaited.
      promise.catch(() => undefined);
      inProgress.add(promise);
      pause = sleep(1000 / perSecond, null, { signal: either });
      pause.catch(() => undefined);
    }
    while (inProgress.size > 0) {
      const { observation, promise } = await Promise.race(inProgress);
      inProgress.delete(promise);
      yield observation;
    }
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  } finally {
    ending.abort();
  }
}

function checkRange(name: string, value: number, max: number): void {
  if (value > 0 && value <= max) return;
  throw new RangeError(`${name} is more than 0 and at most ${max}, not ${value}`);
}

function combineSignals(own: AbortSignal, given: AbortSignal | undefined): AbortSignal {
  return given === undefined ? own : AbortSignal.any([own, given]);
}

/**
 * Probes the endpoint of one record: the connection, the certificate, the HTTP response, and whether the addresses
 * match the declared exposure. Connects only to the host and port of the record.
 * @throws The abort reason of the signal.
 */
export async function probeRecord(
  record: EndpointRecord,
  options: ProbeOptions = {},
): Promise<Observation> {
  const { timeoutMs = 5000, signal } = options;
  const endpoint = parseEndpoint(record);
  const target = endpoint && `${endpoint.host}:${endpoint.port}`;
  const found: Observation = {
    id: record.id,
    target,
    isReachable: null,
    addresses: [],
    problems: [],
  };
  if (endpoint === null || getTransport(endpoint.protocol) === 'udp') return found;
  found.isReachable = false;
  const timeout = AbortSignal.timeout(timeoutMs);
  const either = combineSignals(timeout, signal);
  try {
    await observe(found, { record, endpoint, options, signal: either });
  } catch (error) {
    signal?.throwIfAborted();
    found.problems.push(describeFailure(found, timeout.aborted ? null : error, timeoutMs));
  }
  return found;
}

type Probe = {
  record: EndpointRecord;
  endpoint: Endpoint;
  options: ProbeOptions;
  signal: AbortSignal;
};

/** Fills the observation step by step. Partial results remain after a failure. */
async function observe(found: Observation, probe: Probe): Promise<void> {
  const { record, endpoint, options, signal } = probe;
  const { host, port, protocol, url } = endpoint;
  const plain = await openConnection({ host, port, signal }, (address) =>
    found.addresses.push(address),
  );
  found.isReachable = true;
  found.problems.push(...findExposureProblems(record, found.addresses));
  let socket = plain;
  try {
    if (getTransport(protocol) === 'tls') {
      const secure = await readCertificate(plain, { host, ca: options.ca });
      socket = secure.socket;
      found.certificate = secure.certificate;
      found.problems.push(...findCertificateProblems(secure.certificate, host, options));
    }
    if (url !== null && (protocol === 'http' || protocol === 'https')) {
      found.answer = await requestHead(socket, { host, url, signal });
      const { status } = found.answer;
      // A server may implement GET and not HEAD (RFC 9110 §15.6.2).
      if (status >= 500 && status !== 501) {
        found.problems.push({ code: 'probe/http-error', message: `it answers ${status}` });
      }
    }
  } finally {
    socket.destroy();
    plain.destroy();
  }
}

/** Compares the addresses of a reachable endpoint with its declared exposure. */
export function findExposureProblems(
  { exposure }: Pick<EndpointRecord, 'exposure'>,
  addresses: readonly string[],
): ProbeProblem[] {
  const scopes = new Set(addresses.map(getNetworkScope));
  const isGlobal = scopes.has('global');
  let message: string | undefined;
  if (exposure === 'public' && !isGlobal) {
    message = 'it is declared public, but has no internet address';
  } else if ((exposure === 'local' || exposure === 'private' || exposure === 'vpn') && isGlobal) {
    message = `it is declared ${exposure}, but answers at an internet address`;
  } else if (exposure === 'local' && scopes.has('private')) {
    message = 'it is declared local, but answers at a network address';
  }
  if (message === undefined) return [];
  return [{ code: 'probe/exposure', message: `${message}: ${addresses.join(', ')}` }];
}

function* findCertificateProblems(
  { validTo, problem, isForName }: Certificate,
  host: string,
  { now = Date.now(), expiryDays = 14 }: ProbeOptions,
): Generator<ProbeProblem> {
  const days = Math.floor((validTo.getTime() - now) / 86_400_000);
  const day = toDay(validTo);
  if (days < 0) {
    yield { code: 'probe/certificate-ended', message: `its certificate expired on ${day}` };
  } else if (days < expiryDays) {
    const message = `its certificate expires on ${day}, in ${days} days`;
    yield { code: 'probe/certificate-ends', message };
  }
  if (!isForName) {
    yield { code: 'probe/certificate-name', message: `its certificate is not for ${host}` };
  }
  // The code may concern an issuer; the certificate's own expiry is reported above.
  if (problem !== null && !(problem === 'CERT_HAS_EXPIRED' && days < 0)) {
    const message = `its certificate is not trusted: ${explainDistrust(problem)}`;
    yield { code: 'probe/certificate-untrusted', message };
  }
}

/** @param error Null for a timeout. */
function describeFailure(
  { isReachable }: Observation,
  error: unknown,
  timeoutMs: number,
): ProbeProblem {
  const code = isReachable ? 'probe/silent' : 'probe/unreachable';
  if (error === null) {
    const what = isReachable ? 'it accepts a connection but is silent' : 'no connection opens';
    return { code, message: `${what} within ${timeoutMs / 1000} s` };
  }
  const what = isReachable ? 'the connection fails' : 'no connection opens';
  return { code, message: `${what}: ${explainFailure(error)}` };
}
