/** Waits for something, at most so long. Gives whether it came in time; what comes later is nobody's any more. */
export async function inTime(awaited: Promise<unknown>, timeoutMs: number): Promise<boolean> {
  const late = Promise.withResolvers<boolean>();
  const timer = setTimeout(late.resolve, timeoutMs, false);
  try {
    return await Promise.race([awaited.then(() => true), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** Counts down from now: gives how much of a time is left, for waits that share it. */
export function countDown(timeoutMs: number): () => number {
  const deadline = performance.now() + timeoutMs;
  return () => Math.max(0, deadline - performance.now());
}
