import { once } from 'node:events';
import type { Server as HttpServer } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { after } from 'node:test';
import { createServer as createTlsServer, type TLSSocket } from 'node:tls';
import { generate } from 'selfsigned';

const DAY_MS = 86_400_000;
/** When the tests began. */
export const NOW = Date.now();

type CertificateOptions = {
  name?: string;
  /** The days from now on, both negative for what is over. */
  from?: number;
  days?: number;
  /** Who signs it; its own authority unless told. */
  issuer?: { private: string; cert: string };
};

/** A certificate with its key, for a name on this machine unless told. */
export function certificate({
  name = 'localhost',
  from = -1,
  days = 90,
  issuer,
}: CertificateOptions = {}) {
  return generate([{ name: 'commonName', value: name }], {
    keyType: 'ec',
    // Of what others sign, OpenSSL takes nothing weaker.
    algorithm: 'sha256',
    notBeforeDate: new Date(NOW + from * DAY_MS),
    notAfterDate: new Date(NOW + days * DAY_MS),
    extensions: [
      { name: 'basicConstraints', cA: issuer === undefined },
      { name: 'subjectAltName', altNames: [{ type: 2, value: name }] },
    ],
    ...(issuer && { ca: { key: issuer.private, cert: issuer.cert } }),
  });
}

/** Listens on this machine until the end of the tests, and gives the port. */
export async function listen(server: Server | HttpServer): Promise<number> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  after(() => {
    server.close();
    if ('closeAllConnections' in server) server.closeAllConnections();
  });
  return (server.address() as AddressInfo).port;
}

/** A server that speaks over TLS as it is told, and the certificate to trust it by. */
export async function secureSocket(speak: (socket: TLSSocket) => void) {
  const { private: key, cert } = await certificate();
  const server = createTlsServer({ key, cert }, (socket) => {
    socket.on('error', () => undefined);
    speak(socket);
  });
  return { port: await listen(server), ca: cert };
}

/** A server that passes on what another one says, a byte at a time. */
export async function dripping(to: number): Promise<number> {
  return listen(
    createServer((client) => {
      const server = connect(to, '127.0.0.1');
      client.pipe(server);
      const said: Buffer[] = [];
      server.on('data', (data) => said.push(...Array.from(data, (byte) => Buffer.from([byte]))));
      const drip = setInterval(() => client.write(said.shift() ?? ''), 50);
      client.on('error', () => undefined);
      server.on('error', () => undefined);
      client.on('close', () => {
        clearInterval(drip);
        server.destroy();
      });
    }),
  );
}

/** A server that answers over TLS, and the certificate to trust it by. */
export async function secure(options: CertificateOptions = {}) {
  const { private: key, cert } = await certificate(options);
  const port = await listen(createHttpsServer({ key, cert }, (_, response) => response.end('ok')));
  return { port, ca: options.issuer?.cert ?? cert };
}
