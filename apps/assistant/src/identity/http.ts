import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ClientNote } from './auth-sessions.sql.ts';

/** Far longer than the names of browsers. */
const MAX_USER_AGENT = 300;

/** What the owner of a sign-in is shown of where it came from. */
export function clientNote({ headers, ip }: FastifyRequest): ClientNote {
  return { userAgent: headers['user-agent']?.slice(0, MAX_USER_AGENT) ?? null, address: ip };
}

/** A hook for answers about who is signed in: they belong in no cache. */
export function neverStored(_request: FastifyRequest, reply: FastifyReply, done: () => void): void {
  void reply.header('cache-control', 'no-store');
  done();
}
