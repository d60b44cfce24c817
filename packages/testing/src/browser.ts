import assert from 'node:assert/strict';

/** Page that a browser loaded. */
export type Page = { url: URL; status: number; body: string; headers: Headers };

const MAX_REDIRECTS = 20;

/** Simulated browser without scripts, which stores cookies by path and shares them among all hosts and ports. */
export class Browser {
  readonly #cookies = new Map<string, { name: string; pair: string; path: string }>();

  /** Names of the cookies, sorted. */
  get cookieNames(): string[] {
    return [...new Set([...this.#cookies.values()].map(({ name }) => name))].toSorted();
  }

  /** Sends one request. Does not follow redirects. */
  async fetch(address: string | URL, init: RequestInit = {}): Promise<Response> {
    const url = new URL(address);
    // Use a new connection, because a kept-alive one would fail after a restart of the server.
    const headers = new Headers({ accept: 'text/html', connection: 'close' });
    const cookie = this.#getCookieHeader(url);
    if (cookie !== '') headers.set('cookie', cookie);
    new Headers(init.headers).forEach((value, name) => headers.set(name, value));
    const response = await fetch(url, { redirect: 'manual', ...init, headers });
    for (const header of response.headers.getSetCookie()) this.#storeCookie(header);
    return response;
  }

  get(address: string | URL): Promise<Response> {
    return this.fetch(address);
  }

  /** Posts a form with the `Origin` of the target, like a page of the same origin. */
  post(address: string | URL, form: Record<string, string> | URLSearchParams = {}) {
    const { origin } = new URL(address);
    return this.fetch(address, {
      method: 'POST',
      body: new URLSearchParams(form),
      headers: { origin },
    });
  }

  /** Opens a page or posts a form. Follows redirects and refreshes. */
  async open(
    address: string | URL,
    form?: Record<string, string> | URLSearchParams,
  ): Promise<Page> {
    let url = new URL(address);
    let response = await (form === undefined ? this.get(url) : this.post(url, form));
    for (let redirectCount = 0; redirectCount < MAX_REDIRECTS; redirectCount += 1) {
      const body = await response.text();
      const refresh = /http-equiv="refresh" content="0; url=([^"]+)"/.exec(body)?.[1];
      const nextUrl = response.headers.get('location') ?? (refresh && decodeEntities(refresh));
      if (nextUrl === undefined || nextUrl === '') {
        return { url, status: response.status, body, headers: response.headers };
      }
      url = new URL(nextUrl, url);
      response = await this.get(url);
    }
    throw new Error(`More than ${MAX_REDIRECTS} redirects from ${new URL(address).href}`);
  }

  /** Submits the first form of a page with its hidden fields and additional fields. */
  submit({ url, body }: Page, fields: Record<string, string> = {}): Promise<Page> {
    const action = /<form[^>]* action="([^"]*)"/.exec(body)?.[1];
    assert.ok(action !== undefined, `There is no form at ${url.href}: ${body.slice(0, 500)}`);
    const hiddenInputs = [...body.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)];
    const hiddenFields = Object.fromEntries(
      hiddenInputs.map(([, name = '', value = '']) => [name, value]),
    );
    return this.open(new URL(decodeEntities(action), url), { ...hiddenFields, ...fields });
  }

  #getCookieHeader(url: URL): string {
    const isCookiePath = (path: string) =>
      url.pathname === path || url.pathname.startsWith(path.replace(/\/?$/, '/'));
    const cookies = [...this.#cookies.values()].filter(({ path }) => isCookiePath(path));
    return cookies.map(({ pair }) => pair).join('; ');
  }

  #storeCookie(header: string): void {
    const [pair = '', ...attributes] = header.split(/; */);
    const getAttribute = (name: string) =>
      attributes.find((text) => text.toLowerCase().startsWith(`${name}=`))?.slice(name.length + 1);
    const path = getAttribute('path') ?? '/';
    const name = pair.split('=')[0] ?? '';
    const isExpired =
      getAttribute('max-age') === '0' || Date.parse(getAttribute('expires') ?? '') <= Date.now();
    if (isExpired) this.#cookies.delete(`${path} ${name}`);
    else this.#cookies.set(`${path} ${name}`, { name, pair, path });
  }
}

/**
 * Returns the target URL of a redirect.
 * @throws Error if the response is not a redirect.
 */
export function getRedirectTarget(response: Response): URL {
  const location = response.headers.get('location');
  if (location === null)
    throw new Error(`The response with status ${response.status} is not a redirect`);
  return new URL(location, response.url);
}

const decodeEntities = (text: string) =>
  text
    .replaceAll(/&#(\d+);/g, (_, code: string) => String.fromCharCode(Number(code)))
    .replaceAll('&amp;', '&');
