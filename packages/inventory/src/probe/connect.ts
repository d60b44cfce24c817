import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { checkServerIdentity, connect as connectTls, type TLSSocket } from 'node:tls';
import { removeBrackets } from '../address.ts';
import { maskCredentials } from '../credentials.ts';

export type Certificate = {
  validTo: Date;
  /** OpenSSL code of an untrusted certificate. Null if it is trusted. `CERT_HAS_EXPIRED` may concern an issuer. */
  problem: string | null;
  /** Whether the certificate is valid for the requested host. */
  isForName: boolean;
};

/**
 * Connects to a host.
 * @param onAddress Called with each address to which the name resolves on this machine, or with the IP address itself.
 * @throws Socket errors, and AbortError if the signal aborts.
 */
export function openConnection(
  { host, port, signal }: { host: string; port: number; signal: AbortSignal },
  onAddress: (address: string) => void,
): Promise<Socket> {
  const name = removeBrackets(host);
  const socket = connectTcp({ host: name, port, signal });
  if (isIP(name) !== 0) onAddress(name);
  socket.on('lookup', (error: Error | null, address) => {
    if (error === null) onAddress(address);
  });
  return waitForConnection(socket, 'connect');
}

/**
 * Starts TLS on a connection and reads the certificate, even if it is not trusted.
 * @throws Socket errors, and an Error if there is no certificate with an expiry date.
 */
export async function readCertificate(
  socket: Socket,
  { host, ca }: { host: string; ca?: string | undefined },
): Promise<{ socket: TLSSocket; certificate: Certificate }> {
  const name = removeBrackets(host);
  const tlsSocket = connectTls({
    socket,
    ...(isIP(name) === 0 && { servername: name }),
    ...(ca !== undefined && { ca }),
    // Accepts untrusted certificates, because their expiry must be readable.
    rejectUnauthorized: false,
    ALPNProtocols: ['http/1.1'],
  });
  await waitForConnection(tlsSocket, 'secureConnect');
  const peerCertificate = tlsSocket.getPeerCertificate();
  const validTo = new Date(peerCertificate.valid_to);
  if (Number.isNaN(validTo.getTime())) throw new Error('its certificate has no expiry date');
  const isForName = checkServerIdentity(name, peerCertificate) === undefined;
  // Node returns an error, or its code as a string.
  const authorizationError: (Error & { code?: string }) | string | null =
    tlsSocket.authorizationError;
  const code =
    typeof authorizationError === 'string'
      ? authorizationError
      : (authorizationError?.code ?? authorizationError?.message ?? null);
  // The name is checked separately.
  const problem = code === 'ERR_TLS_CERT_ALTNAME_INVALID' ? null : code;
  return { socket: tlsSocket, certificate: { validTo, problem, isForName } };
}

function waitForConnection<T extends Socket>(
  socket: T,
  event: 'connect' | 'secureConnect',
): Promise<T> {
  return new Promise((resolve, reject) => {
    socket.once(event, () => resolve(socket));
    socket.once('error', reject);
    socket.once('close', () => reject(new Error('the connection was closed')));
  });
}

/** Response to a HEAD request. Redirects are not followed. */
export type HeadResponse = { status: number; redirectsTo: string | null };

/**
 * Sends a HEAD request over an open connection.
 * @param host Host as written in the record.
 * @throws Connection errors.
 */
export async function requestHead(
  socket: Socket,
  { host, url, signal }: { host: string; url: URL; signal: AbortSignal },
): Promise<HeadResponse> {
  const headRequest = request({
    method: 'HEAD',
    path: `${url.pathname}${url.search}`,
    headers: {
      host: url.port === '' ? host : `${host}:${url.port}`,
      'user-agent': 'oselya-inventory',
      connection: 'close',
    },
    createConnection: () => socket,
    signal,
  });
  const responsePromise = once(headRequest, 'response') as Promise<[IncomingMessage]>;
  // Errors after the response are irrelevant.
  headRequest.on('error', () => undefined);
  headRequest.end();
  const [response] = await responsePromise;
  response.resume();
  const { location } = response.headers;
  const redirectsTo = location === undefined ? null : maskCredentials(location);
  return { status: response.statusCode ?? 0, redirectsTo };
}

/** Messages by OpenSSL code (openssl-verification-options(1)). */
const DISTRUST_REASONS: Partial<Record<string, string>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: 'it is self-signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'its root authority is not trusted',
  UNABLE_TO_GET_ISSUER_CERT: 'the certificate of an issuer is missing',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'its issuer is unknown, or an intermediate is missing',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'its issuer is unknown, or an intermediate is missing',
  CERT_HAS_EXPIRED: 'the certificate of an issuer has expired',
  CERT_NOT_YET_VALID: 'it, or that of an issuer, is not valid yet',
  CERT_REVOKED: 'it was revoked',
};

const NO_TLS_REASON = 'the server does not speak TLS properly; correct the protocol, or the server';

const FAILURE_REASONS: Partial<Record<string, string>> = {
  ENOTFOUND: 'the name does not exist, as seen from here; correct the host',
  EAI_AGAIN: 'names cannot be resolved now; try again',
  ECONNREFUSED: 'nothing listens there; start it, or correct the port',
  EHOSTUNREACH: 'there is no route from here; probe from its own network',
  ENETUNREACH: 'there is no route from here; probe from its own network',
  ETIMEDOUT: 'nothing answers; check for a firewall, or correct the host',
  ECONNRESET: 'the other side closes it; check the log there',
  EACCES: 'this machine does not allow it; check its firewall',
  EPERM: 'this machine does not allow it; check its firewall',
  EPROTO: NO_TLS_REASON,
};

/** Explains why a certificate is not trusted, with the code and a remedy. */
export function explainDistrust(code: string): string {
  const reason = DISTRUST_REASONS[code];
  const description = reason === undefined ? code : `${reason} (${code})`;
  return `${description}; replace it, or trust its authority, as with --ca`;
}

/** Explains why a connection failed, with the error code, if any. */
export function explainFailure(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (!('code' in error)) return error.message;
  const code = String(error.code);
  let reason = FAILURE_REASONS[code];
  if (code.startsWith('ERR_SSL_')) reason = NO_TLS_REASON;
  if (code.startsWith('HPE_')) reason = 'the server does not speak HTTP; correct the url';
  return reason === undefined ? code : `${reason} (${code})`;
}
