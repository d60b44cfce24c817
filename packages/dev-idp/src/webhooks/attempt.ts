/** What came of one attempt, in words for a person; `retry` where a later one may go better. */
export type AttemptResult = {
  outcome: 'delivered' | 'retry' | 'failed';
  detail: string;
};

/** One request to make. */
export type Attempt = {
  url: string;
  headers: Record<string, string>;
  body: string;
  timeoutMs: number;
  /** Ends the attempt early. */
  signal: AbortSignal;
};

const mayPass: ReadonlySet<number> = new Set([408, 425, 429]);

/**
 * Posts a message once. Any 2xx answer takes it; its body is not read, and redirects are not followed.
 * Each attempt has a connection of its own: a receiver in development is restarted often, and a kept
 * connection would fail the first message after that.
 */
export async function attempt({
  url,
  headers,
  body,
  timeoutMs,
  signal,
}: Attempt): Promise<AttemptResult> {
  try {
    const answer = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', connection: 'close', ...headers },
      body,
      redirect: 'manual',
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
    });
    await answer.body?.cancel();
    return { outcome: outcomeOf(answer), detail: `answered ${answer.status}` };
  } catch (error) {
    return { outcome: 'retry', detail: reasonOf(error, timeoutMs) };
  }
}

// Another answer to the same message is only to be hoped for where the fault was not in the message.
function outcomeOf({ ok, status }: Response): AttemptResult['outcome'] {
  if (ok) return 'delivered';
  return status >= 500 || mayPass.has(status) ? 'retry' : 'failed';
}

function reasonOf(error: unknown, timeoutMs: number): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === 'TimeoutError') return `no answer within ${timeoutMs / 1000} s`;
  // Fetch says "fetch failed" whatever happened, and keeps what did in the cause.
  const { cause } = error;
  const reason = cause instanceof Error && 'code' in cause ? String(cause.code) : error.message;
  return `cannot be reached (${reason})`;
}
