import type { onRequestHookHandler } from 'fastify';
import { signedIn } from '../access/guards.ts';
import { problem } from '../errors.ts';

/**
 * Makes a hook that lets a user have one export at a time in this process, until the last byte of it has gone: one
 * person cannot take all the places that there are. It runs after the guard of routes.
 */
export function oneExportPerUser(): onRequestHookHandler {
  const exporting = new Set<string>();
  return (request, reply, done) => {
    const { id } = signedIn(request);
    if (exporting.has(id)) return done(problem('export_running'));
    exporting.add(id);
    // Comes once whatever the end, also where the client has gone.
    reply.raw.once('close', () => exporting.delete(id));
    done();
  };
}
