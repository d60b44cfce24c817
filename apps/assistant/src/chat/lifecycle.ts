import type { Server } from '@oselya/kit';
import type { ModelClient } from '@oselya/model';
import type { Chat } from './chat.ts';

/** How often answers are looked for whose process has gone. */
const CUT_MS = 10_000;

/**
 * Has conversations begin and end with the server: it hears of other processes, cuts off what those that have
 * gone left, and at its end lets turns finish before the model is closed.
 */
export function chatLifecycle(
  app: Server,
  {
    chat,
    model,
    listen,
  }: {
    chat: Pick<Chat, 'hear' | 'cutAllStale' | 'close'>;
    model: Pick<ModelClient, 'close'>;
    listen: (hear: (payload: string) => void) => Promise<() => Promise<void>>;
  },
): void {
  let stopListening: (() => Promise<void>) | undefined;
  let looking = Promise.resolve();
  const look = () => {
    looking = looking.then(cutOff);
  };
  let timer: NodeJS.Timeout | undefined;
  app.addHook('onReady', async () => {
    stopListening = await listen(chat.hear);
  });
  app.addHook('onListen', (done) => {
    look();
    timer = setInterval(look, CUT_MS).unref();
    done();
  });
  app.addHook('onClose', async () => {
    clearInterval(timer);
    await looking;
    await stopListening?.();
    await chat.close();
    await model.close();
  });

  async function cutOff(): Promise<void> {
    try {
      const cut = await chat.cutAllStale();
      if (cut > 0) app.log.info({ cut }, 'answers of processes that have gone were cut off');
    } catch (error) {
      app.log.warn({ err: error }, 'answers of processes that have gone could not be cut off');
    }
  }
}
