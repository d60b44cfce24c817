import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import helmet from 'helmet';
import { PAGE_STYLE_HASH } from './page.ts';

/** Pages of the platform run no script and load nothing from elsewhere, unless their route says so. */
const setHeaders = helmet({
  contentSecurityPolicy: {
    useDefaults: false,
    directives: {
      defaultSrc: ["'none'"],
      styleSrc: ["'self'", PAGE_STYLE_HASH],
      imgSrc: ["'self'"],
      formAction: ["'self'"],
      frameAncestors: ["'none'"],
      baseUri: ["'none'"],
    },
  },
  referrerPolicy: { policy: 'no-referrer' },
  // Transport security belongs to whatever ends TLS in front; over plain HTTP it means nothing.
  strictTransportSecurity: false,
});

/**
 * The security headers of every answer, as helmet sets them. They are the same for all requests, and
 * making them anew each time was a fifth of a fast answer.
 */
export const securityHeaders: Readonly<Record<string, string>> = recorded();

function recorded(): Record<string, string> {
  const request = new IncomingMessage(new Socket());
  const response = new ServerResponse(request);
  setHeaders(request, response, (error) => {
    if (error !== undefined) throw error;
  });
  return Object.fromEntries(
    Object.entries(response.getHeaders()).map(([name, value]) => [name, String(value)]),
  );
}
