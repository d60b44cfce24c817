import type { IncomingMessage } from 'node:http';
import type { onRequestHookHandler } from 'fastify';
import { commonProblem } from '../common-errors.ts';

/** Returns whether a request has at most one `Host`: of several, Node reads the first and a proxy may read the last. */
export function namesOneHost({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>): boolean {
  const names = rawHeaders.filter((_, index) => index % 2 === 0);
  return names.filter((name) => name.toLowerCase() === 'host').length < 2;
}

/** Rejects requests with several `Host` headers. RFC 9112 §3.2. */
export const refuseSeveralHosts: onRequestHookHandler = ({ raw }, _reply, done) => {
  if (namesOneHost(raw)) return done();
  done(commonProblem('malformed_request', { detail: 'Send one Host header: there are several.' }));
};
