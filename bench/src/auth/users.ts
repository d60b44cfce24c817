/** Email domain of all users, which every correct response about a user contains. */
export const EMAIL_DOMAIN = '@users.example.test';

/** Returns the user at the given index. All variants have the same users. */
export function createUser(index: number): { id: string; email: string; name: string } {
  return { id: `u-${index}`, email: `user-${index}${EMAIL_DOMAIN}`, name: `User ${index}` };
}

/** Runs a task for the first `count` users, ten at a time, and returns the results in index order. */
export async function mapUsers<Result>(
  count: number,
  task: (index: number) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  for (let first = 0; first < count; first += 10) {
    const indexes = Array.from(
      { length: Math.min(10, count - first) },
      (_, offset) => first + offset,
    );
    results.push(...(await Promise.all(indexes.map(task))));
  }
  return results;
}

/** HTTP client that stores the cookies of one origin and ignores their attributes. */
export class Browser {
  readonly #cookies = new Map<string, string>();
  readonly #origin: string;

  constructor(origin: string) {
    this.#origin = origin;
  }

  /** Current value of the `Cookie` header. */
  get cookie(): string {
    return [...this.#cookies].map((pair) => pair.join('=')).join('; ');
  }

  /**
   * Sends a request without following redirects, and stores the cookies of the response.
   * @throws Error if the status is 400 or higher.
   */
  async request(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    if (this.#cookies.size > 0) headers.set('cookie', this.cookie);
    const response = await fetch(this.#origin + path, { ...init, headers, redirect: 'manual' });
    const body = await response.text();
    if (response.status >= 400)
      throw new Error(`${path} responded with status ${response.status}: ${body}`);
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      this.#cookies.set(name, value);
    }
    return response;
  }

  /** Deletes the cookies whose names end with the given suffix. */
  deleteCookies(suffix: string): void {
    for (const name of this.#cookies.keys()) {
      if (name.endsWith(suffix)) this.#cookies.delete(name);
    }
  }
}
