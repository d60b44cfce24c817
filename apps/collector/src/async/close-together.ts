/** Ends something, and waits until it has ended. */
export type Close = () => Promise<void>;

/**
 * Begins to close everything at once, and waits for all of it even where some of it fails.
 * @throws What the first of those that failed threw.
 */
export async function closeTogether(parts: readonly Close[]): Promise<void> {
  const results = await Promise.allSettled(parts.map((close) => close()));
  for (const result of results) if (result.status === 'rejected') throw result.reason;
}
