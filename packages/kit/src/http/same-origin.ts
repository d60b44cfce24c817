import type { FastifyRequest } from 'fastify';

const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);

/**
 * Whether a request could change something and was sent by a page of another origin. Browsers say so in
 * `Sec-Fetch-Site`, older ones in `Origin` alone. A request with neither comes from no browser, where no
 * other site can act in somebody's name.
 * @param publicOrigin The service's origin behind a proxy, where it is not the host that was asked for.
 */
export function isCrossSiteChange(
  { method, headers, protocol, host }: FastifyRequest,
  publicOrigin?: string,
): boolean {
  if (SAFE_METHODS.has(method)) return false;
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site !== 'same-origin' && site !== 'none';
  return isForeignOrigin({ headers, protocol, host }, publicOrigin);
}

/**
 * Whether a page of another origin sent a request, by its `Origin` alone: browsers send that with every
 * change and every WebSocket handshake.
 * @param publicOrigin As in {@link isCrossSiteChange}.
 */
export function isForeignOrigin(
  { headers: { origin }, protocol, host }: Pick<FastifyRequest, 'headers' | 'protocol' | 'host'>,
  publicOrigin?: string,
): boolean {
  return origin !== undefined && origin !== publicOrigin && origin !== `${protocol}://${host}`;
}
