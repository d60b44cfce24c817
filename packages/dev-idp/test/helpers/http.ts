/**
 * Sends a request on a connection of its own and follows no redirect. Providers are restarted on one
 * port, and a connection kept from the earlier one would fail the first request to the later.
 */
export function send(url: string | URL, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  headers.set('connection', 'close');
  return fetch(url, { ...init, headers, redirect: 'manual' });
}
