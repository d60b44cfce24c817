import { onDrain, type Server } from '@oselya/kit';
import type { ModelClient } from '@oselya/model';
import { SESSION_CHANNEL } from '../sessions/index.ts';
import type { Chat } from './chat.ts';
import { TURN_CHANNEL } from './turns.sql.ts';

/** How often answers are looked for whose process has gone. */
const CUT_MS = 5000;

/**
 * Has conversations begin and end with the server: it hears of other processes, cuts off what those that have
 * gone left, and at its end lets turns finish before the model is closed.
 */
export function chatLifecycle(
  app: Server,
  {
    chat,
    model,
    isExclusive,
    listen,
  }: {
    chat: Pick<Chat, 'hear' | 'hearChange' | 'cutAllStale' | 'close'>;
    model: Pick<ModelClient, 'close'>;
    /** Whether no other process can work on the database: what runs when this one starts has no process. */
    isExclusive: boolean;
    listen: (channel: string, hear: (payload: string) => void) => Promise<() => Promise<void>>;
  },
): void {
  let stopListening: (() => Promise<void>)[] = [];
  let looking: Promise<void> | undefined;
  /** One look at a time: where the database is slow, the next one is for the next time. */
  const look = (options = {}) => {
    looking ??= cutOff(options).finally(() => {
      looking = undefined;
    });
  };
  let timer: NodeJS.Timeout | undefined;
  app.addHook('onReady', async () => {
    stopListening = await Promise.all([
      listen(TURN_CHANNEL, chat.hear),
      listen(SESSION_CHANNEL, chat.hearChange),
    ]);
  });
  app.addHook('onListen', (done) => {
    look({ all: isExclusive });
    timer = setInterval(() => look(), CUT_MS).unref();
    done();
  });
  let ended: Promise<void> | undefined;
  const end = () => (ended ??= endTurns());
  onDrain(app, end);
  app.addHook('onClose', async () => {
    // Until the last turn has ended somebody may be signed out, or cancel.
    await end();
    await Promise.all(stopListening.map((stop) => stop()));
    await model.close();
  });

  async function endTurns(): Promise<void> {
    clearInterval(timer);
    await looking;
    await chat.close();
  }

  async function cutOff(options: { all?: boolean }): Promise<void> {
    try {
      await chat.cutAllStale(options);
    } catch (error) {
      app.log.warn({ err: error }, 'answers whose process has gone could not be looked for');
    }
  }
}
