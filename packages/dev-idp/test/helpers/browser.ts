import { send } from './http.ts';

type Cookie = { value: string; path: string };

/** As much of a browser as a sign-in needs: it keeps cookies by path and follows no redirect by itself. */
export class Browser {
  readonly #cookies = new Map<string, Cookie>();

  /** The names of the cookies it holds, sorted. */
  get cookieNames(): string[] {
    return [...new Set([...this.#cookies.values()].map(({ value }) => value.split('=')[0] ?? ''))]
      .filter((name) => !name.endsWith('.sig'))
      .toSorted();
  }

  get(url: string | URL): Promise<Response> {
    return this.#fetch(new URL(url), {});
  }

  post(url: string | URL, form: Record<string, string>): Promise<Response> {
    return this.#fetch(new URL(url), { method: 'POST', body: new URLSearchParams(form) });
  }

  async #fetch(url: URL, init: RequestInit): Promise<Response> {
    const cookie = [...this.#cookies.values()]
      .filter(
        ({ path }) => url.pathname === path || url.pathname.startsWith(`${path}/`) || path === '/',
      )
      .map(({ value }) => value)
      .join('; ');
    const response = await send(url, { ...init, headers: { cookie, accept: 'text/html' } });
    for (const header of response.headers.getSetCookie()) this.#keep(header);
    return response;
  }

  #keep(header: string): void {
    const [pair = '', ...attributes] = header.split('; ');
    const attribute = (name: string) =>
      attributes.find((text) => text.toLowerCase().startsWith(`${name}=`))?.slice(name.length + 1);
    const path = attribute('path') ?? '/';
    const key = `${path} ${pair.split('=')[0]}`;
    const expires = attribute('expires');
    if (expires && Date.parse(expires) <= Date.now()) this.#cookies.delete(key);
    else this.#cookies.set(key, { value: pair, path });
  }
}

/** The address a redirect points to. */
export function locationOf(response: Response): URL {
  const location = response.headers.get('location');
  if (location === null) throw new Error(`The answer ${response.status} is no redirect.`);
  return new URL(location, response.url);
}
