import { once } from 'node:events';
import { type ClientOptions, SocketClient } from './socket-client.ts';

/**
 * How long a client waits before it connects again after a close, or null where it does not: the rule of
 * docs/protocol.md.
 * @param attempt Counts from 0 since a connection last held.
 */
export function reconnectDelayMs(code: number, attempt: number): number | null {
  const backoffMs = Math.min(30_000, 1000 * 2 ** attempt) * (0.5 + Math.random() / 2);
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

/** A client that follows the rule. Its waits are noted instead of waited. */
export class ReconnectingClient {
  readonly codes: number[] = [];
  readonly delaysMs: number[] = [];
  /** True when the rule says that it must not connect again by itself. */
  hasStopped = false;
  current: SocketClient | undefined;
  private attempt = 0;

  /**
   * @param urls The processes behind the service's one address; the next attempt reaches the next.
   * @param use What the client does on each connection.
   */
  constructor(
    urls: readonly string[],
    options: ClientOptions,
    use: (client: SocketClient) => void,
  ) {
    void this.run(urls, options, use);
  }

  private async run(
    urls: readonly string[],
    options: ClientOptions,
    use: (client: SocketClient) => void,
  ): Promise<void> {
    while (!this.hasStopped) {
      const client = SocketClient.begin(urls[this.codes.length % urls.length] ?? '', options);
      this.current = client;
      client.socket.once('open', () => {
        this.attempt = 0;
        use(client);
      });
      const [code]: number[] = await once(client.socket, 'close');
      if (code === undefined) throw new Error('A socket closes with a code');
      this.codes.push(code);
      const delayMs = reconnectDelayMs(code, this.attempt);
      this.attempt += 1;
      if (delayMs === null) this.hasStopped = true;
      else this.delaysMs.push(delayMs);
    }
  }
}
