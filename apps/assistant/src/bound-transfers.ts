import type { onRequestHookHandler } from 'fastify';
import { problem } from './errors.ts';

/**
 * Makes a hook that lets at most so many requests of its routes be in progress at once: each holds a
 * whole file in memory, until the last byte of it has come or gone. The others are told to come back.
 * @param what What is on its way, in the plural, for the answer to these.
 */
export function boundTransfers(most: number, what: string): onRequestHookHandler {
  let inProgress = 0;
  return (_request, reply, done) => {
    if (inProgress >= most) {
      return done(
        problem('unavailable', {
          detail: `Too many ${what} are on their way. Try again in a moment.`,
          headers: { 'retry-after': '2' },
        }),
      );
    }
    inProgress += 1;
    // Comes once whatever the end, also where the client has gone.
    reply.raw.once('close', () => {
      inProgress -= 1;
    });
    done();
  };
}
