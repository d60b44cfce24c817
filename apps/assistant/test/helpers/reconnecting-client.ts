import { once } from 'node:events';
import { reconnectDelayMs } from '@oselya/chat-client';
import { type ClientOptions, SocketClient } from './socket-client.ts';

/** A client that follows the rule of docs/protocol.md, Close codes. Its waits are noted instead of waited. */
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
