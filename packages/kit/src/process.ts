import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import type { Logger } from './logging.ts';

/** Thrown for a startup failure that the operator can fix. The message is shown without a stack trace. */
export class StartError extends Error {
  override readonly name: string = 'StartError';
}

const ADDRESS_ERROR_CODES = new Set(['EACCES', 'EADDRNOTAVAIL', 'ENOTFOUND', 'EAI_AGAIN']);

/**
 * Starts listening.
 * @param variable Configuration variable that sets the port, for the error message.
 * @returns The server URL, without a trailing slash.
 * @throws StartError if the port is in use or not permitted, or if the host is not an address of this machine.
 */
export async function listen(
  app: Pick<FastifyInstance, 'listen' | 'server'>,
  { host, port, variable }: { host: string; port: number; variable: string },
): Promise<string> {
  try {
    await app.listen({ host, port });
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (code !== 'EADDRINUSE' && !ADDRESS_ERROR_CODES.has(code)) throw error;
    const message =
      code === 'EADDRINUSE'
        ? `Port ${port} on ${host} is in use: stop the program that uses it, or set ${variable} to a different port`
        : `Cannot listen on ${host}:${port} (${code}): set ${variable} and the host to an address of this machine`;
    throw new StartError(message, { cause: error });
  }
  const address = app.server.address() as AddressInfo;
  const urlHost = host.includes(':') ? `[${host}]` : host;
  return `http://${urlHost}:${address.port}`;
}

/**
 * Calls `close` on SIGINT or SIGTERM. A second signal exits the process immediately, with status 1.
 * @returns A promise that settles with the result of `close`.
 */
export function onShutdown(log: Logger, close: () => Promise<void>): Promise<void> {
  return new Promise((resolve, reject) => {
    let isClosing = false;
    const onSignal = (signal: NodeJS.Signals) => {
      if (isClosing) process.exit(1);
      isClosing = true;
      log.info({ signal }, 'shutting down');
      close().then(resolve, reject);
    };
    process.on('SIGINT', onSignal);
    process.on('SIGTERM', onSignal);
  });
}
