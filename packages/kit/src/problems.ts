/** One row of an app's error table. */
export type ErrorDefinition = {
  /** HTTP status. */
  status: number;
  title: string;
  /** What the person or program that meets it can do. */
  advice: string;
  /** Whether the same request can succeed later. */
  retry: boolean;
  /** For those who meet it in a browser. */
  page?: ErrorPage;
};

/** What a page about an error has that the error's problem has not. */
export type ErrorPage = {
  /** In place of the advice, where that speaks to programs. */
  advice?: string;
  /** The way on. */
  button?: { href: string; text: string };
};

/** What is known of one occurrence of an error, beside the row of the table. */
export type ProblemDetails = {
  /** What the public reads about this one occurrence. */
  detail?: string;
  /** What failed underneath: for the log, never for the public. */
  cause?: unknown;
  /** Each rule that a request breaks, and where. */
  errors?: readonly { path: string; message: string }[];
  /** Headers of the answer, such as `retry-after`. */
  headers?: Readonly<Record<string, string>>;
  /** Further members of the answer (RFC 9457 §3.2), such as the id of what the error is about. */
  members?: Readonly<Record<string, unknown>>;
};

/** An error that is answered as `application/problem+json` (RFC 9457). Contract 2. */
export class ProblemError extends Error {
  override readonly name = 'ProblemError';
  readonly code: string;
  readonly status: number;
  readonly title: string;
  readonly detail: string;
  readonly errors: readonly { path: string; message: string }[] | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly members: Readonly<Record<string, unknown>>;
  /** The page's own detail stands for the advice only: what is said of one occurrence says more. */
  readonly page: { detail: string; button: ErrorPage['button'] };

  constructor(code: string, definition: ErrorDefinition, details: ProblemDetails = {}) {
    const detail = details.detail ?? definition.advice;
    super(`${code}: ${detail}`, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.status = definition.status;
    this.title = definition.title;
    this.detail = detail;
    this.errors = details.errors;
    this.headers = details.headers ?? {};
    this.members = details.members ?? {};
    const { advice = detail, button } = definition.page ?? {};
    this.page = { detail: details.detail ?? advice, button };
  }
}

/** Builds an error of a table, to be thrown. */
export type ProblemFactory<Code extends string> = (
  code: Code,
  details?: ProblemDetails,
) => ProblemError;

/** Makes the function that builds the errors of a table; a code outside the table is a type error. */
export function defineProblems<Code extends string>(
  table: Readonly<Record<Code, ErrorDefinition>>,
): ProblemFactory<Code> {
  return (code, details) => new ProblemError(code, table[code], details);
}
