import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { CommandError } from '../command.ts';
import { parseProblem, getFailureReason, sendRequest } from '../http.ts';
import manifest from '../../package.json' with { type: 'json' };

/** User agent that the assistant shows in the user's list of sign-ins. */
const USER_AGENT = `oselya-chat/${manifest.version} (${process.platform})`;

/** Schema of the session cookie. It validates responses and the stored file. */
export const sessionCookieSchema = Type.Object({
  name: Type.String({ pattern: "^[\\w!#$%&'*+.^`|~-]{1,64}$" }),
  value: Type.String({ pattern: '^[A-Za-z0-9_-]{43}$' }),
});

/** The session cookie of this terminal. */
export type SessionCookie = Static<typeof sessionCookieSchema>;

/** Delay before a slow request is reported. */
const SLOW_REQUEST_MS = 3000;

type AssistantRequest = { method?: 'POST'; signIn?: SessionCookie | undefined; body?: object };

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

/** HTTP client of the assistant for requests outside the WebSocket. */
export class AssistantClient {
  readonly url: string;
  readonly #note: (line: string) => void;

  /** @param note Called with a line when a request is slow. */
  constructor(url: string, note: (line: string) => void) {
    this.url = url;
    this.#note = note;
  }

  /**
   * Returns the email of the signed-in user. Undefined if the session cookie is missing or invalid.
   * @throws CommandError if no assistant answers.
   */
  async getAccount(signIn: SessionCookie | undefined): Promise<string | undefined> {
    const answer = await this.#ask('/auth/me', { signIn });
    if (answer.status === 401 && parseProblem(answer.body) !== undefined) return undefined;
    if (!Value.Check(accountSchema, answer.body)) throw this.#rejection(answer);
    return answer.body.email;
  }

  /**
   * Redeems the code of a sign-in (docs/adr/0024-sign-in-of-the-terminal.md).
   * @throws CommandError if the request fails or the cookie is invalid.
   */
  async redeemCode(code: string, codeVerifier: string): Promise<SessionCookie> {
    const body = { code, code_verifier: codeVerifier };
    const answer = await this.#ask('/auth/terminal/token', { method: 'POST', body });
    if (!Value.Check(tokenSchema, answer.body)) throw this.#rejection(answer);
    const signIn = { name: answer.body.cookie_name, value: answer.body.session_id };
    if (Value.Check(sessionCookieSchema, signIn)) return signIn;
    throw new CommandError(
      `the assistant at ${this.url} returned an invalid cookie: set BASE_URL to the address of an assistant that you trust`,
    );
  }

  /** Ends the auth session of a cookie. */
  async signOut(signIn: SessionCookie): Promise<void> {
    const answer = await this.#ask('/auth/logout', { method: 'POST', signIn });
    if (answer.status !== 200) throw this.#rejection(answer);
  }

  /** Returns the user's latest sessions. */
  async listSessions(signIn: SessionCookie, limit: number) {
    const answer = await this.#ask(`/sessions?limit=${limit}`, { signIn });
    if (!Value.Check(sessionsSchema, answer.body)) throw this.#rejection(answer);
    return answer.body;
  }

  async #ask(path: string, { method, signIn, body }: AssistantRequest) {
    const quiet = setTimeout(
      () => this.#note(formatSlowNotice(SLOW_REQUEST_MS / 1000)),
      SLOW_REQUEST_MS,
    );
    try {
      return await sendRequest(this.url + path, {
        method,
        headers: {
          accept: 'application/json',
          'user-agent': USER_AGENT,
          ...(signIn !== undefined && { cookie: `${signIn.name}=${signIn.value}` }),
        },
        body,
      });
    } catch (cause) {
      throw createUnreachableError(this.url, getFailureReason(cause), cause);
    } finally {
      clearTimeout(quiet);
    }
  }

  #rejection({ status, body }: { status: number; body: unknown }): CommandError {
    // A response without a problem body comes from another server.
    const said = status < 400 ? undefined : parseProblem(body);
    return said === undefined
      ? createNotAssistantError(this.url)
      : new CommandError(`the assistant answered ${status}: ${said.text}`);
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
  return `The assistant has not answered for ${seconds} s. Still waiting.`;
}

/** Creates the error for a server that is not an assistant. */
export function createNotAssistantError(url: string): CommandError {
  return new CommandError(
    `the server at ${url} is not an Oselya assistant: set BASE_URL to the address of one`,
  );
}
