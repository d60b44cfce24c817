import { ProblemError } from '@oselya/kit';
import { problem } from '../../errors.ts';

/**
 * Why the identity provider did not do what it was asked.
 *
 * - `refused`: it understood, and said no to this code or token.
 * - `unavailable`: it was not reached, was too slow, failed, or gave an unusable answer. That says
 *   nothing about the token, so nobody may lose a session over it.
 *
 * The message goes to the log. It is built from statuses and error codes only, never from an answer:
 * those carry tokens. For the same reason there is no cause.
 */
export class ProviderError extends Error {
  override readonly name = 'ProviderError';
  readonly kind: 'refused' | 'unavailable';

  constructor(kind: 'refused' | 'unavailable', message: string) {
    super(message);
    this.kind = kind;
  }
}

/**
 * The provider answered about somebody, but without an email that can be stored. As with any unusable
 * answer nobody loses a session over it.
 */
export class NoEmailError extends ProviderError {
  constructor() {
    super('unavailable', 'userinfo answered without a usable email');
  }
}

/** Whether an error is the provider's refusal. */
export function isRefusal(error: unknown): boolean {
  return error instanceof ProviderError && error.kind === 'refused';
}

/**
 * Takes an error that openid-client threw. The transport's own come back wrapped by it; what else it
 * throws means that an answer with a success status was not what the protocol asks for.
 */
export function toProviderError(error: unknown): ProviderError | ProblemError {
  if (error instanceof ProviderError || error instanceof ProblemError) return error;
  if (error instanceof Error) {
    if (error.cause instanceof ProviderError) return error.cause;
    const code = 'code' in error ? ` (${String(error.code)})` : '';
    return new ProviderError('unavailable', `the answer is not usable${code}`);
  }
  return new ProviderError('unavailable', 'the answer is not usable');
}

/** Seconds after which a client may ask again when the provider did not answer. */
const RETRY_AFTER_SECONDS = '5';

/** The answer to a request that needed the provider while it was unavailable. Contract 3, Refresh. */
export function providerUnavailable(cause?: ProviderError) {
  return problem('provider_unavailable', {
    headers: { 'retry-after': RETRY_AFTER_SECONDS },
    ...(cause === undefined ? {} : { cause }),
  });
}

/**
 * Turns an outage into the answer to a sign-in that met it: nobody has been signed in yet, and trying
 * again gives nobody an email.
 */
export function outageAtSignIn(error: unknown): unknown {
  if (error instanceof NoEmailError) return problem('account_without_email', { cause: error });
  if (!(error instanceof ProviderError)) return error;
  return problem('provider_unavailable', {
    detail: 'Nobody was signed in. Sign in again in a few seconds.',
    headers: { 'retry-after': RETRY_AFTER_SECONDS },
    cause: error,
  });
}

/** Waits for what a sign-in needs of the provider; an outage becomes that answer. */
export async function unlessOutage<Result>(work: Promise<Result>): Promise<Result> {
  try {
    return await work;
  } catch (error) {
    throw outageAtSignIn(error);
  }
}

/** Whether an error is that answer. */
export function isProviderOutage(error: unknown): boolean {
  return error instanceof ProblemError && error.code === 'provider_unavailable';
}

/** Turns an outage into the answer to the request that met it; other errors stay what they are. */
export function outageAsProblem(error: unknown): unknown {
  if (error instanceof NoEmailError) return problem('user_without_email', { cause: error });
  return error instanceof ProviderError ? providerUnavailable(error) : error;
}
