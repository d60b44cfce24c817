import type { Server } from '@oselya/kit';
import type { Digests } from './digests.ts';

/**
 * Has digests begin with the server and end with it.
 * @param options.pollSeconds SAVED_SEARCH_POLL_SECONDS; with 0 this process leaves them to others.
 * @param options.listen Hears of the ends of answers.
 */
export function digestLifecycle(
  app: Server,
  {
    digests,
    pollSeconds,
    isExclusive,
    listen,
  }: {
    digests: Pick<Digests, 'start' | 'hear' | 'close'>;
    pollSeconds: number;
    isExclusive: boolean;
    listen: (hear: (sessionId: string) => void) => Promise<() => Promise<void>>;
  },
): void {
  if (pollSeconds === 0) return;
  let stopListening: (() => Promise<void>) | undefined;
  app.addHook('onReady', async () => {
    stopListening = await listen(digests.hear);
  });
  app.addHook('onListen', (done) => {
    digests.start({ pollMs: pollSeconds * 1000, isExclusive });
    done();
  });
  app.addHook('onClose', async () => {
    await stopListening?.();
    await digests.close();
  });
}
