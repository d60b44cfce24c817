import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import manifest from '../../package.json' with { type: 'json' };
import { CommandError } from '../command.ts';
import { getFailureReason, type HttpResponse, parseProblem, sendRequest } from '../http.ts';

const USER_AGENT = `oselya-chat/${manifest.version} (${process.platform})`;

/** Schema of the session cookie, in responses and in the stored file. */
export const sessionCookieSchema = Type.Object({
  name: Type.String({ pattern: "^[\\w!#$%&'*+.^`|~-]{1,64}$" }),
  value: Type.String({ pattern: '^[A-Za-z0-9_-]{43}$' }),
});

export type SessionCookie = Static<typeof sessionCookieSchema>;

const SLOW_REQUEST_MS = 3000;

const tokenSchema = Type.Object({ session_id: Type.String(), cookie_name: Type.String() });

const accountSchema = Type.Object({ email: Type.String() });

const sessionsSchema = Type.Array(
  Type.Object({
    session_id: Type.String(),
    name: Type.String(),
    message_count: Type.Integer(),
    last_active: Type.String(),
  }),
);

export type ListedSessions = Static<typeof sessionsSchema>;

/** HTTP client of the assistant for requests outside the WebSocket. */
export class AssistantClient {
  readonly url: string;
  readonly #writeNote: (line: string) => void;

  /** @param writeNote Called with a line when a request is slow. */
  constructor(url: string, writeNote: (line: string) => void) {
    this.url = url;
    this.#writeNote = writeNote;
  }

  /**
   * Returns the email of the signed-in user, or undefined if the session cookie is missing or invalid.
   * @throws CommandError if no assistant responds, or if it responds with another error.
   */
  async getAccount(cookie: SessionCookie | undefined): Promise<string | undefined> {
    const response = await this.#request('/auth/me', { cookie });
    if (response.status === 401 && parseProblem(response.body) !== undefined) return undefined;
    if (!Value.Check(accountSchema, response.body)) throw this.#createError(response);
    return response.body.email;
  }

  /**
   * Redeems the code of a sign-in (docs/adr/0024-sign-in-of-the-terminal.md).
   * @throws CommandError if the request fails or the cookie is invalid.
   */
  async redeemCode(code: string, codeVerifier: string): Promise<SessionCookie> {
    const body = { code, code_verifier: codeVerifier };
    const response = await this.#request('/auth/terminal/token', { method: 'POST', body });
    if (!Value.Check(tokenSchema, response.body)) throw this.#createError(response);
    const cookie = { name: response.body.cookie_name, value: response.body.session_id };
    if (Value.Check(sessionCookieSchema, cookie)) return cookie;
    throw new CommandError(
      `the assistant at ${this.url} returned an invalid cookie: set BASE_URL to the address of an assistant that you trust`,
    );
  }

  /** Ends the auth session that a cookie identifies. @throws CommandError if the request fails. */
  async signOut(cookie: SessionCookie): Promise<void> {
    const response = await this.#request('/auth/logout', { method: 'POST', cookie });
    if (response.status !== 200) throw this.#createError(response);
  }

  /** Returns the user's latest sessions. @throws CommandError if the request fails. */
  async listSessions(cookie: SessionCookie, limit: number): Promise<ListedSessions> {
    const response = await this.#request(`/sessions?limit=${limit}`, { cookie });
    if (!Value.Check(sessionsSchema, response.body)) throw this.#createError(response);
    return response.body;
  }

  async #request(
    path: string,
    request: { method?: 'POST'; cookie?: SessionCookie | undefined; body?: object },
  ): Promise<HttpResponse> {
    const { method, cookie, body } = request;
    const notice = formatSlowNotice(SLOW_REQUEST_MS / 1000);
    const timer = setTimeout(this.#writeNote, SLOW_REQUEST_MS, notice);
    const headers = {
      accept: 'application/json',
      'user-agent': USER_AGENT,
      ...(cookie !== undefined && { cookie: `${cookie.name}=${cookie.value}` }),
    };
    try {
      return await sendRequest(this.url + path, { method, headers, body });
    } catch (cause) {
      throw createUnreachableError(this.url, getFailureReason(cause), cause);
    } finally {
      clearTimeout(timer);
    }
  }

  #createError({ status, body }: HttpResponse): CommandError {
    // A response without a problem body does not come from an assistant.
    const problem = status < 400 ? undefined : parseProblem(body);
    return problem === undefined
      ? createNotAssistantError(this.url)
      : new CommandError(`the assistant responded with status ${status}: ${problem.text}`);
  }
}

/** Creates the error for an unreachable assistant. */
export function createUnreachableError(url: string, reason: string, cause: unknown): CommandError {
  return new CommandError(
    `the assistant at ${url} cannot be reached (${reason}): start it with npm start, or set BASE_URL to its address`,
    { cause },
  );
}

/** Formats the notice about a slow response. */
export function formatSlowNotice(seconds: number): string {
  return `The assistant has not responded for ${seconds} s. Still waiting.`;
}

/** Creates the error for a server other than an assistant. */
export function createNotAssistantError(url: string): CommandError {
  return new CommandError(
    `the server at ${url} is not an Oselya assistant: set BASE_URL to the address of one`,
  );
}
