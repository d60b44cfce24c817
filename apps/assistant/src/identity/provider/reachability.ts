/** How long an answer is shared, so that those who ask for health cannot have the provider asked as often. */
const SHARED_MS = 1000;

/** When an address that does not answer counts as out of reach: before those who ask give up. */
const TIMEOUT_MS = 2000;

/**
 * Tells whether anything answers at an address. It is asked once a second at most; who asks meanwhile
 * shares the answer, also while it is on its way.
 * @param now Milliseconds, as of any moment.
 */
export function createReachability(
  address: string,
  now: () => number = () => performance.now(),
): () => Promise<boolean> {
  let latest: { at: number; answer: Promise<boolean> } | undefined;
  return () => {
    if (latest === undefined || now() - latest.at >= SHARED_MS) {
      latest = { at: now(), answer: answers(address) };
    }
    return latest.answer;
  };
}

async function answers(address: string): Promise<boolean> {
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    await fetch(address, { method: 'HEAD', redirect: 'manual', signal });
    return true;
  } catch {
    return false;
  }
}
