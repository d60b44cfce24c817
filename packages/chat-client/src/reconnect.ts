const MAX_BACKOFF_MS = 30_000;

/**
 * How long a client waits before it connects again after a close, or null where it does not: the rule of
 * docs/protocol.md, Close codes.
 * @param attempt Counts from 0 since a connection was last open.
 */
export function reconnectDelayMs(code: number, attempt: number): number | null {
  const backoffMs = Math.min(MAX_BACKOFF_MS, 1000 * 2 ** attempt) * (0.5 + Math.random() / 2);
  switch (code) {
    case 1006:
    case 1009:
    case 1011:
      return backoffMs;
    case 1012:
      return attempt === 0 ? Math.random() * 2000 : backoffMs;
    case 4429:
      return 60_000 + Math.random() * 60_000;
    default:
      return null;
  }
}
