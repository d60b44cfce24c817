import type { Logger } from './logging.ts';

/**
 * Closes the process on SIGINT or SIGTERM: the first signal closes what runs, a second one ends the
 * process at once.
 * @returns Ends when everything is closed.
 */
export function onShutdown(log: Logger, close: () => Promise<void>): Promise<void> {
  return new Promise((resolve, reject) => {
    let closing = false;
    const stop = (signal: NodeJS.Signals) => {
      if (closing) process.exit(1);
      closing = true;
      log.info({ signal }, 'shutting down');
      close().then(resolve, reject);
    };
    process.on('SIGINT', stop);
    process.on('SIGTERM', stop);
  });
}
