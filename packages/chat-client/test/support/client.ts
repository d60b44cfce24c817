import type { TestContext } from 'node:test';
import {
  type Answer,
  type ChatClient,
  ChatError,
  openChat,
  reconnectDelayMs,
  type Status,
  type TurnEvent,
} from '../../src/client.ts';
import { withCookie } from '../../src/node.ts';
import { type Peer, startScript } from './script.ts';

export const cookie = { name: 'svc_auth_session', value: 'A'.repeat(43) };

/** A client that waits for no reconnection, and the server that it talks to. */
export async function openPair(
  t: Pick<TestContext, 'after'>,
  options: Partial<Pick<Parameters<typeof openChat>[0], 'patienceMs' | 'quietMs' | 'delayOf'>> = {},
) {
  const script = await startScript(t);
  const statuses: Status[] = [];
  const ended = Promise.withResolvers<ChatError>();
  const [client, peer] = await Promise.all([
    openChat({
      url: script.url,
      openSocket: withCookie(cookie),
      onStatus(status) {
        statuses.push(status);
        if (status.type === 'ended') ended.resolve(status.error);
      },
      delayOf: (code) => (reconnectDelayMs(code, 0) === null ? null : 0),
      ...options,
    }),
    script.peer(),
  ]);
  t.after(() => client.close());
  return { script, client, peer, statuses, ended: ended.promise };
}

/** Everything of an answer, and how it ended where that is an error. */
export async function all(answer: Answer): Promise<{ events: TurnEvent[]; error?: ChatError }> {
  const events: TurnEvent[] = [];
  try {
    for await (const event of answer) events.push(event);
    return { events };
  } catch (error) {
    if (!(error instanceof ChatError)) throw error;
    return { events, error };
  }
}

/** What was streamed of an answer. */
export const textOf = (events: readonly TurnEvent[]): string =>
  events.map((event) => (event.type === 'message.delta' ? event.text : '')).join('');

/** Says something, and gives the message as the server got it. */
export async function say(peer: Peer): Promise<{ id: string; client_message_id: unknown }> {
  const { id, client_message_id } = await peer.hear('message.send');
  return { id, client_message_id };
}

/** Cancels the answer in the session `s`, and has the server say that it does. */
export async function cancel(client: Pick<ChatClient, 'cancel'>, peer: Peer): Promise<void> {
  const cancelling = client.cancel('s');
  const { id } = await peer.hear('message.cancel');
  peer.say({ type: 'message.cancelling', id, session_id: 's' });
  await cancelling;
}
