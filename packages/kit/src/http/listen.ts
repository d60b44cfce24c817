import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { StartError } from '../start-error.ts';

type AnyServer = Pick<FastifyInstance, 'listen' | 'server'>;

const NOT_AN_ADDRESS_OF_OURS = new Set(['EACCES', 'EADDRNOTAVAIL', 'ENOTFOUND', 'EAI_AGAIN']);

/**
 * Starts to listen, and gives the address as a URL without a trailing slash.
 * @param variable The configuration variable that sets the port, for the error.
 * @throws StartError where the port is taken or may not be used, or the host is not this machine's.
 */
export async function listen(
  app: AnyServer,
  { host, port, variable }: { host: string; port: number; variable: string },
): Promise<string> {
  try {
    await app.listen({ host, port });
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === 'EADDRINUSE') {
      throw new StartError(
        `Port ${port} on ${host} is in use: stop what uses it, or set ${variable} to another port`,
        { cause: error },
      );
    }
    if (code !== undefined && NOT_AN_ADDRESS_OF_OURS.has(code)) {
      throw new StartError(
        `Cannot listen on ${host}:${port} (${code}): set ${variable} and the host to an address of this machine`,
        { cause: error },
      );
    }
    throw error;
  }
  const address = app.server.address() as AddressInfo;
  const name = host.includes(':') ? `[${host}]` : host;
  return `http://${name}:${address.port}`;
}
