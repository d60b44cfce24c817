import assert from 'node:assert/strict';

/** A page that a browser came to. */
export type Page = { url: URL; status: number; body: string; headers: Headers };

/** A browser over real HTTP, without scripts: it keeps cookies by host and path, and follows what leads on. */
export class HttpBrowser {
  readonly #cookies = new Map<string, { pair: string; path: string }>();

  get(address: string | URL): Promise<Page> {
    return this.#open(new URL(address), {});
  }

  /** Posts a form as a page of the same origin does. */
  post(address: string | URL, fields: Record<string, string> = {}): Promise<Page> {
    const url = new URL(address);
    const headers = { origin: url.origin };
    return this.#open(url, { method: 'POST', body: new URLSearchParams(fields), headers });
  }

  /** Submits the first form of a page, with its hidden fields and those given. */
  submit({ url, body }: Page, fields: Record<string, string> = {}): Promise<Page> {
    const action = /<form[^>]* action="([^"]*)"/.exec(body)?.[1];
    assert.ok(action !== undefined, `There is no form at ${url.href}: ${body.slice(0, 500)}`);
    const hidden = [...body.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)];
    const known = Object.fromEntries(hidden.map(([, name = '', value = '']) => [name, value]));
    return this.post(new URL(readEntities(action), url), { ...known, ...fields });
  }

  /** Sends one request and follows nothing. */
  async fetch(url: URL, init: RequestInit = {}): Promise<Response> {
    const cookie = [...this.#cookies.values()]
      .filter(
        ({ path }) => url.pathname === path || url.pathname.startsWith(path.replace(/\/?$/, '/')),
      )
      .map(({ pair }) => pair)
      .join('; ');
    const headers = new Headers({ cookie, accept: 'text/html' });
    new Headers(init.headers).forEach((value, name) => headers.set(name, value));
    const response = await fetch(url, { redirect: 'manual', ...init, headers });
    for (const header of response.headers.getSetCookie()) this.#keep(header);
    return response;
  }

  async #open(url: URL, init: RequestInit): Promise<Page> {
    const response = await this.fetch(url, init);
    const body = await response.text();
    const refresh = /http-equiv="refresh" content="0; url=([^"]+)"/.exec(body)?.[1];
    const next = response.headers.get('location') ?? (refresh && readEntities(refresh));
    if (next !== undefined && next !== '') return this.#open(new URL(next, url), {});
    return { url, status: response.status, body, headers: response.headers };
  }

  #keep(header: string): void {
    const [pair = '', ...attributes] = header.split(/; */);
    const attribute = (name: string) =>
      attributes.find((text) => text.toLowerCase().startsWith(`${name}=`))?.slice(name.length + 1);
    const path = attribute('path') ?? '/';
    const key = `${path} ${pair.split('=')[0]}`;
    const isOver =
      attribute('max-age') === '0' || Date.parse(attribute('expires') ?? '') <= Date.now();
    if (isOver) this.#cookies.delete(key);
    else this.#cookies.set(key, { pair, path });
  }
}

const readEntities = (text: string) =>
  text
    .replaceAll(/&#(\d+);/g, (_, code: string) => String.fromCharCode(Number(code)))
    .replaceAll('&amp;', '&');
