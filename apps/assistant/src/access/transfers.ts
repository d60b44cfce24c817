import type { ProblemError } from '@oselya/kit';
import type { FastifyReply, onRequestHookHandler } from 'fastify';
import { createTally } from '../counting.ts';
import { problem } from '../errors.ts';
import { signedIn } from './guards.ts';

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
    const isWaitedFor = whenOver(reply, () => {
      inProgress -= 1;
    });
    if (!isWaitedFor) return;
    inProgress += 1;
    done();
  };
}

/**
 * Makes a hook that lets a user have so many requests of its routes in progress at once in this process, until the last
 * byte of each has come or gone: one person cannot take all the places that there are. It runs after the guard of
 * routes.
 * @param refusal What the others are answered.
 */
export function boundPerUser(most: number, refusal: () => ProblemError): onRequestHookHandler {
  const inProgress = createTally();
  return (request, reply, done) => {
    const { id } = signedIn(request);
    if (inProgress.of(id) >= most) return done(refusal());
    const isWaitedFor = whenOver(reply, () => inProgress.remove(id));
    if (!isWaitedFor) return;
    inProgress.add(id);
    done();
  };
}

/**
 * Has work done once when an answer is over: its last byte has gone, or whoever asked has.
 * @returns False where they have gone before, of which no event comes any more. Then there is nobody to answer, and
 *   the request is to go no further.
 */
function whenOver(reply: FastifyReply, work: () => void): boolean {
  if (reply.raw.closed) {
    reply.hijack();
    return false;
  }
  reply.raw.once('close', work);
  return true;
}
