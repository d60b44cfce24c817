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

/** Stable problem codes. */
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
  /** `HOST:PORT`. Null if the record has no valid host and port. */
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
  /** Trusted certificates (PEM) that replace Node's certificates. */
  ca?: string | undefined;
  /** Current time in milliseconds since 1970. Defaults to `Date.now()`. */
  now?: number;
  signal?: AbortSignal | undefined;
};

export const MAX_CONCURRENT_PROBES = 64;
export const MAX_PROBES_PER_SECOND = 1000;

export type ProbeAllOptions = {
  /** Maximum number of concurrent probes, at most 64. Defaults to 4. */
  concurrency?: number;
  /** Maximum number of probes started per second, at most 1000. Defaults to 5. */
  perSecond?: number;
} & ProbeOptions;

type FinishedProbe = { observation: Observation; promise: Promise<FinishedProbe> };

/**
 * Probes the endpoints of records at a limited rate, because faster probes resemble an attack. Yields each
 * observation as soon as it is known. No probe starts while observations wait to be consumed.
 * @throws RangeError for limits out of range, errors of the record iterator, and the signal's abort reason.
 */
export async function* probeAll(
  records: Iterable<EndpointRecord>,
  { concurrency = 4, perSecond = 5, signal, ...options }: ProbeAllOptions = {},
): AsyncGenerator<Observation, void, undefined> {
  checkRange('concurrency', concurrency, MAX_CONCURRENT_PROBES);
  checkRange('perSecond', perSecond, MAX_PROBES_PER_SECOND);
  const stopController = new AbortController();
  const combinedSignal = combineSignals(stopController.signal, signal);
  const inProgress = new Set<Promise<FinishedProbe>>();
  let pause: Promise<null> | null = null;
  try {
    for (const record of records) {
      while (pause !== null || inProgress.size >= concurrency) {
        const pauses = pause !== null && inProgress.size < concurrency ? [pause] : [];
        const finishedProbe: FinishedProbe | null = await Promise.race([...inProgress, ...pauses]);
        if (finishedProbe === null) pause = null;
        else {
          inProgress.delete(finishedProbe.promise);
          yield finishedProbe.observation;
        }
      }
      signal?.throwIfAborted();
      const promise: Promise<FinishedProbe> = probeRecord(record, {
        ...options,
        signal: combinedSignal,
      }).then((observation) => ({ observation, promise }));
      // If several probes fail, only the first failure is awaited.
      promise.catch(() => undefined);
      inProgress.add(promise);
      pause = sleep(1000 / perSecond, null, { signal: combinedSignal });
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
    stopController.abort();
  }
}

function checkRange(name: string, value: number, max: number): void {
  if (value > 0 && value <= max) return;
  throw new RangeError(`${name} must be more than 0 and at most ${max}, not ${value}`);
}

function combineSignals(
  localSignal: AbortSignal,
  callerSignal: AbortSignal | undefined,
): AbortSignal {
  return callerSignal === undefined ? localSignal : AbortSignal.any([localSignal, callerSignal]);
}

/**
 * Probes the endpoint of one record: the connection, the certificate, the HTTP response, and whether the addresses
 * match the declared exposure. Connects only to the host and port of the record.
 * @throws The signal's abort reason.
 */
export async function probeRecord(
  record: EndpointRecord,
  options: ProbeOptions = {},
): Promise<Observation> {
  const { timeoutMs = 5000, signal } = options;
  const endpoint = parseEndpoint(record);
  const target = endpoint && `${endpoint.host}:${endpoint.port}`;
  const observation: Observation = {
    id: record.id,
    target,
    isReachable: null,
    addresses: [],
    problems: [],
  };
  if (endpoint === null || getTransport(endpoint.protocol) === 'udp') return observation;
  observation.isReachable = false;
  const timeout = AbortSignal.timeout(timeoutMs);
  const combinedSignal = combineSignals(timeout, signal);
  try {
    await observe(observation, { record, endpoint, options, signal: combinedSignal });
  } catch (error) {
    signal?.throwIfAborted();
    observation.problems.push(
      describeFailure(observation, timeout.aborted ? null : error, timeoutMs),
    );
  }
  return observation;
}

type Probe = {
  record: EndpointRecord;
  endpoint: Endpoint;
  options: ProbeOptions;
  signal: AbortSignal;
};

/** Fills the observation step by step. Partial results remain after a failure. */
async function observe(observation: Observation, probe: Probe): Promise<void> {
  const { record, endpoint, options, signal } = probe;
  const { host, port, protocol, url } = endpoint;
  const tcpSocket = await openConnection({ host, port, signal }, (address) =>
    observation.addresses.push(address),
  );
  observation.isReachable = true;
  observation.problems.push(...findExposureProblems(record, observation.addresses));
  let socket = tcpSocket;
  try {
    if (getTransport(protocol) === 'tls') {
      const tlsConnection = await readCertificate(tcpSocket, { host, ca: options.ca });
      socket = tlsConnection.socket;
      observation.certificate = tlsConnection.certificate;
      observation.problems.push(
        ...findCertificateProblems(tlsConnection.certificate, host, options),
      );
    }
    if (url !== null && (protocol === 'http' || protocol === 'https')) {
      observation.answer = await requestHead(socket, { host, url, signal });
      const { status } = observation.answer;
      // A server may implement GET and not HEAD (RFC 9110 §15.6.2).
      if (status >= 500 && status !== 501) {
        observation.problems.push({
          code: 'probe/http-error',
          message: `it responds with status ${status}`,
        });
      }
    }
  } finally {
    socket.destroy();
    tcpSocket.destroy();
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
  const remainingDays = Math.floor((validTo.getTime() - now) / 86_400_000);
  const expiryDay = toDay(validTo);
  if (remainingDays < 0) {
    yield { code: 'probe/certificate-ended', message: `its certificate expired on ${expiryDay}` };
  } else if (remainingDays < expiryDays) {
    const message = `its certificate expires on ${expiryDay}, in ${remainingDays} days`;
    yield { code: 'probe/certificate-ends', message };
  }
  if (!isForName) {
    yield { code: 'probe/certificate-name', message: `its certificate is not for ${host}` };
  }
  // CERT_HAS_EXPIRED may also concern an issuer's certificate. The expiry of this certificate is reported above.
  if (problem !== null && !(problem === 'CERT_HAS_EXPIRED' && remainingDays < 0)) {
    const message = `its certificate is not trusted: ${explainDistrust(problem)}`;
    yield { code: 'probe/certificate-untrusted', message };
  }
}

/** Describes a failed probe. @param error Null for a timeout. */
function describeFailure(
  { isReachable }: Observation,
  error: unknown,
  timeoutMs: number,
): ProbeProblem {
  const code = isReachable ? 'probe/silent' : 'probe/unreachable';
  if (error === null) {
    const description = isReachable
      ? 'it accepts a connection but is silent'
      : 'no connection opens';
    return { code, message: `${description} within ${timeoutMs / 1000} s` };
  }
  const description = isReachable ? 'the connection fails' : 'no connection opens';
  return { code, message: `${description}: ${explainFailure(error)}` };
}
