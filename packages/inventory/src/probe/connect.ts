import type { LookupAddress } from 'node:dns';
import { lookup } from 'node:dns/promises';
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { checkServerIdentity, connect as connectTls, type TLSSocket } from 'node:tls';
import { withoutBrackets } from '../host.ts';

/** What the certificate of a server says, and whether to believe it. */
export type Certificate = {
  /** When it ends. */
  validTo: Date;
  /**
   * Why it is not to be trusted, such as SELF_SIGNED_CERT_IN_CHAIN; CERT_HAS_EXPIRED may be of one above it. Null when
   * it is.
   */
  problem: string | null;
  /** Whether it is for the name that was asked for. */
  isForName: boolean;
};

/** The addresses that a name has, from this machine's point of view; an address has itself. */
export async function resolve(host: string): Promise<LookupAddress[]> {
  const plain = withoutBrackets(host);
  const family = isIP(plain);
  return family === 0 ? lookup(plain, { all: true }) : [{ address: plain, family }];
}

/**
 * Opens a connection to one of the addresses, the first that answers. The name is not asked for again, so
 * it cannot lead elsewhere meanwhile.
 * @throws What the socket throws; an AbortError when the signal is given first.
 */
export function open(
  addresses: readonly LookupAddress[],
  { host, port, signal }: { host: string; port: number; signal: AbortSignal },
): Promise<Socket> {
  const socket = connectTcp({
    host: withoutBrackets(host),
    port,
    signal,
    lookup: (_name, options, done) => {
      const [first] = addresses;
      if (options.all || first === undefined) done(null, [...addresses]);
      else done(null, first.address, first.family);
    },
  });
  return settled(socket, 'connect');
}

/**
 * Begins TLS on a connection, whatever the certificate, and reads it.
 * @throws What the socket throws; an Error when there is no certificate to read.
 */
export async function readCertificate(
  socket: Socket,
  { host, ca }: { host: string; ca?: string | undefined },
): Promise<{ socket: TLSSocket; certificate: Certificate }> {
  const name = withoutBrackets(host);
  const secure = connectTls({
    socket,
    ...(isIP(name) === 0 && { servername: name }),
    ...(ca !== undefined && { ca }),
    // What is wrong with the certificate is what is asked for.
    rejectUnauthorized: false,
    ALPNProtocols: ['http/1.1'],
  });
  await settled(secure, 'secureConnect');
  const peer = secure.getPeerCertificate();
  const validTo = new Date(peer.valid_to);
  if (Number.isNaN(validTo.getTime())) throw new Error('it shows no certificate with an end');
  const isForName = checkServerIdentity(name, peer) === undefined;
  // The name is judged apart, and Node's judgement of it may hide another.
  const problem = errorCode(secure.authorizationError);
  return {
    socket: secure,
    certificate: {
      validTo,
      problem: problem === 'ERR_TLS_CERT_ALTNAME_INVALID' ? null : problem,
      isForName,
    },
  };
}

function settled<T extends Socket>(socket: T, event: 'connect' | 'secureConnect'): Promise<T> {
  return new Promise((done, fail) => {
    socket.once(event, () => done(socket));
    socket.once('error', fail);
    socket.once('close', () => fail(new Error('the connection was closed')));
  });
}

/** Node gives an error, or its code as a text. */
function errorCode(error: Error | string | null | undefined): string | null {
  if (error === null || error === undefined) return null;
  if (typeof error === 'string') return error;
  return 'code' in error ? String(error.code) : error.message;
}
