import type { IncomingMessage } from 'node:http';
import type { onRequestHookHandler } from 'fastify';
import { commonProblem } from '../common-errors.ts';

/** Whether a request names at most one host: Node takes the first of several, another server the last. */
export function namesOneHost({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>): boolean {
  const names = rawHeaders.filter((_, index) => index % 2 === 0);
  return names.filter((name) => name.toLowerCase() === 'host').length < 2;
}

/** A hook that rejects a request with several `Host` headers. RFC 9112 §3.2. */
export const refuseSeveralHosts: onRequestHookHandler = ({ raw }, _reply, done) => {
  if (namesOneHost(raw)) return done();
  done(commonProblem('malformed_request', { detail: 'Send one Host header: there are several.' }));
};
