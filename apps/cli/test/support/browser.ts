type Cookie = { path: string; name: string; pair: string };

const MAX_HOPS = 10;

/**
 * As much of a browser as a sign-in on one host needs: it keeps cookies, which as in a browser are those
 * of all ports, and follows redirects when a page is opened.
 */
export class Browser {
  #cookies: Cookie[] = [];

  get(url: string | URL): Promise<Response> {
    return this.#send(new URL(url), {});
  }

  post(url: string | URL, body: URLSearchParams | string): Promise<Response> {
    return this.#send(new URL(url), { method: 'POST', body });
  }

  /** Asks for a page, or sends a form, and goes where the answers point to. */
  async open(url: string, form?: URLSearchParams): Promise<Response> {
    let answer = await (form === undefined ? this.get(url) : this.post(url, form));
    for (let hops = 0; hops < MAX_HOPS; hops += 1) {
      const location = answer.headers.get('location');
      if (location === null) return answer;
      answer = await this.get(new URL(location, answer.url));
    }
    throw new Error(`More than ${MAX_HOPS} redirects from ${url}`);
  }

  async #send(url: URL, init: RequestInit): Promise<Response> {
    const cookie = this.#cookies
      .filter(({ path }) => url.pathname.startsWith(path))
      .map(({ pair }) => pair)
      .join('; ');
    const headers = { cookie, origin: url.origin, accept: 'text/html, application/json;q=0.9' };
    const answer = await fetch(url, { ...init, headers, redirect: 'manual' });
    for (const header of answer.headers.getSetCookie()) this.#keep(header);
    return answer;
  }

  #keep(header: string): void {
    const [pair = '', ...rest] = header.split('; ');
    const attributes = new Map(
      rest.map((text) => {
        const [key = '', value = ''] = text.split('=');
        return [key.toLowerCase(), value];
      }),
    );
    const cookie = { path: attributes.get('path') ?? '/', name: pair.split('=')[0] ?? '', pair };
    this.#cookies = this.#cookies.filter(
      (other) => other.path !== cookie.path || other.name !== cookie.name,
    );
    const expires = attributes.get('expires');
    const isEnded =
      attributes.get('max-age') === '0' ||
      (expires !== undefined && Date.parse(expires) <= Date.now());
    if (!isEnded) this.#cookies.push(cookie);
  }
}
