import type { onRequestHookHandler } from 'fastify';
import { commonErrors } from '../common-errors.ts';
import { refuseConnection } from './malformed-http.ts';
import { logAnswered } from './request-log.ts';

/**
 * How slowly a body may come: it is whole after so long, or has come at least by so much in each such time. No
 * body that is read into memory is as large as that, so those have the time once. One that is stored while
 * it comes, such as pictures, may take longer, as long as it comes at half a megabit a second or more.
 */
export const SLOWEST_BODY = { milliseconds: 120_000, bytes: 8 * 1024 * 1024 };

/**
 * A hook that ends a request whose body comes more slowly, with 408 and its connection. It is in place of
 * the limit that Node has, which holds for a request as a whole, however large it is.
 */
export const refuseSlowBody: onRequestHookHandler = (request, reply, done) => {
  const { raw, id } = request;
  const { socket } = raw;
  if (hasBody(raw.headers)) {
    let before = socket.bytesRead;
    const timer = setInterval(() => {
      const received = socket.bytesRead - before;
      before = socket.bytesRead;
      if (raw.complete || received >= SLOWEST_BODY.bytes) return;
      clearInterval(timer);
      // Whoever was answered before the end of the body has nothing more to be told.
      if (reply.raw.headersSent) {
        socket.destroy();
        return;
      }
      refuseConnection(socket, 'request_too_slow', id);
      logAnswered(request, reply, commonErrors.request_too_slow.status);
    }, SLOWEST_BODY.milliseconds);
    timer.unref();
    raw.once('close', () => clearInterval(timer));
  }
  done();
};

function hasBody(headers: { 'content-length'?: string; 'transfer-encoding'?: string }): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}
