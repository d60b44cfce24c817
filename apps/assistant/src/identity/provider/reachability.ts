/** How long an answer is shared, so that those who ask for health cannot have the provider asked as often. */
const SHARED_MS = 1000;

/** When an address that does not answer counts as out of reach: before those who ask give up. */
const TIMEOUT_MS = 2000;

/**
 * Creates a function that returns why an address does not answer, such as `ECONNREFUSED`, or undefined when it does.
 * It sends one request a second at most; other calls share its result.
 * @param now Milliseconds, as of any moment.
 */
export function createReachability(
  address: string,
  now: () => number = () => performance.now(),
): () => Promise<string | undefined> {
  let latest: { at: number; answer: Promise<string | undefined> } | undefined;
  return () => {
    if (latest === undefined || now() - latest.at >= SHARED_MS) {
      latest = { at: now(), answer: outageOf(address) };
    }
    return latest.answer;
  };
}

async function outageOf(address: string): Promise<string | undefined> {
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    await fetch(address, { method: 'HEAD', redirect: 'manual', signal });
    return undefined;
  } catch (error) {
    if (error instanceof Error && error.name === 'TimeoutError') {
      return `no answer within ${TIMEOUT_MS / 1000} s`;
    }
    // fetch says only that it failed; the system's code is in its cause.
    const { cause } = error as { cause?: NodeJS.ErrnoException };
    return cause?.code ?? cause?.message ?? 'the connection failed';
  }
}
