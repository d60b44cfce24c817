import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { CommandError } from '../command.ts';
import { problemText, reasonOf, request } from '../http.ts';
import manifest from '../../package.json' with { type: 'json' };

/** As users see it among their sign-ins. */
const USER_AGENT = `oselya-chat/${manifest.version} (${process.platform})`;

/** A sign-in of this terminal: the cookie that it is known by. What an assistant gives, and a file keeps, is held to it. */
export const signInSchema = Type.Object({
  name: Type.String({ pattern: "^[\\w!#$%&'*+.^`|~-]{1,64}$" }),
  value: Type.String({ pattern: '^[A-Za-z0-9_-]{43}$' }),
});

/** As the schema has it. */
export type SignIn = Static<typeof signInSchema>;

/** How long a request waits before that is told. */
const QUIET_MS = 3000;

type Question = { method?: 'POST'; signIn?: SignIn | undefined; body?: object };

const tokenAnswer = Type.Object({ session_id: Type.String(), cookie_name: Type.String() });

const me = Type.Object({ email: Type.String() });

const sessions = Type.Array(
  Type.Object({
    session_id: Type.String(),
    name: Type.String(),
    message_count: Type.Integer(),
    last_active: Type.String(),
  }),
);

/** The assistant over HTTP, for what has no place in its sockets. */
export class Assistant {
  readonly url: string;
  readonly #note: (line: string) => void;

  /** @param note Is given a line where the assistant does not answer for some time, and may still do. */
  constructor(url: string, note: (line: string) => void) {
    this.url = url;
    this.#note = note;
  }

  /**
   * The email of who is signed in; undefined where the sign-in is one no more, and without one.
   * @throws CommandError where no assistant answers.
   */
  async account(signIn: SignIn | undefined): Promise<string | undefined> {
    const answer = await this.#ask('/auth/me', { signIn });
    if (answer.status === 401 && problemText(answer.body) !== undefined) return undefined;
    if (!Value.Check(me, answer.body)) throw this.#refusal(answer);
    return answer.body.email;
  }

  /**
   * Redeems the code of a sign-in. docs/adr/0024-sign-in-of-the-terminal.md.
   * @throws CommandError also for a cookie that cannot be kept: it would spoil the sign-ins at other assistants.
   */
  async redeem(code: string, codeVerifier: string): Promise<SignIn> {
    const body = { code, code_verifier: codeVerifier };
    const answer = await this.#ask('/auth/terminal/token', { method: 'POST', body });
    if (!Value.Check(tokenAnswer, answer.body)) throw this.#refusal(answer);
    const signIn = { name: answer.body.cookie_name, value: answer.body.session_id };
    if (Value.Check(signInSchema, signIn)) return signIn;
    throw new CommandError(
      `the assistant at ${this.url} gave a cookie that is none of an assistant, and it is not kept: set BASE_URL to the address of one that you trust`,
    );
  }

  /** Ends a sign-in. */
  async signOut(signIn: SignIn): Promise<void> {
    const answer = await this.#ask('/auth/logout', { method: 'POST', signIn });
    if (answer.status !== 200) throw this.#refusal(answer);
  }

  /** The user's latest sessions. */
  async sessions(signIn: SignIn, limit: number) {
    const answer = await this.#ask(`/sessions?limit=${limit}`, { signIn });
    if (!Value.Check(sessions, answer.body)) throw this.#refusal(answer);
    return answer.body;
  }

  async #ask(path: string, { method, signIn, body }: Question) {
    const quiet = setTimeout(() => this.#note(silent(QUIET_MS / 1000)), QUIET_MS);
    try {
      return await request(this.url + path, {
        method,
        headers: {
          accept: 'application/json',
          'user-agent': USER_AGENT,
          ...(signIn !== undefined && { cookie: `${signIn.name}=${signIn.value}` }),
        },
        body,
      });
    } catch (cause) {
      throw unreachable(this.url, reasonOf(cause), cause);
    } finally {
      clearTimeout(quiet);
    }
  }

  #refusal({ status, body }: { status: number; body: unknown }): CommandError {
    // What is no refusal, and not as an assistant answers, is of something else.
    const said = status < 400 ? undefined : problemText(body);
    return said === undefined
      ? noAssistant(this.url)
      : new CommandError(`the assistant refused (${status}): ${said.text}`);
  }
}

/** Nothing answers where an assistant should be. */
export function unreachable(url: string, reason: string, cause: unknown): CommandError {
  return new CommandError(
    `the assistant at ${url} cannot be reached (${reason}): start it with npm start, or set BASE_URL to where it is`,
    { cause },
  );
}

/** Nothing has been heard for some time, and may still be. */
export function silent(seconds: number): string {
  return `The assistant has not answered for ${seconds} s: waiting for it.`;
}

/** Something else answers where an assistant should be. */
export function noAssistant(url: string): CommandError {
  return new CommandError(
    `what answers at ${url} is no assistant: set BASE_URL to the address of one`,
  );
}
