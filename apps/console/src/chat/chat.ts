import {
  type ChatClient,
  ChatError,
  type ConnectionStatus,
  openChat,
  reconnectDelayMs,
} from '@oselya/chat-client';
import { requestPart } from '../api.ts';
import { Conversation } from './conversation.ts';
import { createDraftStore, type DraftStore } from './drafts.ts';

/** State of the connection, for people. */
export type LinkState =
  | { type: 'connecting' | 'connected' | 'quiet' }
  /** There is no connection, or the server cannot answer. The next attempt is at `endsAt` of `performance.now()`. */
  | { type: 'waiting' | 'unavailable'; endsAt: number }
  | { type: 'ended'; code: ChatError['code'] };

/** Maximum number of conversations that stay open. */
const MAX_CONVERSATIONS = 20;

const ATTEMPT_CODES: Partial<Record<ChatError['code'], number>> = {
  unreachable: 1006,
  too_many: 4429,
};

/** The conversations of a user in this tab, which share a connection. */
export class Chat {
  readonly userId: string;
  readonly drafts: DraftStore;
  /** Called when a session has a new name, a new message or another place in the list. */
  onSessionsChanged: () => void = () => undefined;
  /** Called when the server has closed the connection because the sign-in has ended. */
  onSignedOut: () => void = () => undefined;
  readonly #conversations = new Map<string, Conversation>();
  readonly #listeners = new Set<() => void>();
  #state: LinkState = { type: 'connecting' };
  #client: Promise<ChatClient> | undefined;
  #endWait = (): void => undefined;

  constructor(userId: string) {
    this.userId = userId;
    this.drafts = createDraftStore(sessionStorage, userId);
    addEventListener('online', this.reconnectNow);
  }

  readonly getState = (): LinkState => this.#state;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** Returns the connected client, and connects first if needed. After a final close it stays rejected. */
  readonly getClient = (): Promise<ChatClient> => {
    this.#client ??= this.#connect();
    return this.#client;
  };

  /** Ends the wait for the next attempt. */
  readonly reconnectNow = (): void => {
    this.#endWait();
    void this.#client?.then((client) => client.reconnectNow()).catch(() => undefined);
  };

  /** Connects again after a final close, and opens the conversations again. */
  readonly restart = (): void => {
    this.#client = undefined;
    for (const conversation of this.#conversations.values()) void conversation.open();
  };

  /** Creates a session with a profile, or the default one. */
  async createSession(profileId?: string): Promise<string> {
    const { session_id: id } = await (await this.getClient()).createSession({ profileId });
    this.onSessionsChanged();
    return id;
  }

  /** Returns a conversation, which is opened when it is first wanted. */
  getConversation(sessionId: string): Conversation {
    const known = this.#conversations.get(sessionId);
    if (known !== undefined) return known;
    const conversation = new Conversation({
      sessionId,
      getClient: this.getClient,
      requestMessages: requestPart,
      drafts: this.drafts,
      schedule: scheduleFrame,
    });
    this.#conversations.set(sessionId, conversation);
    this.#closeOldest();
    void conversation.open();
    return conversation;
  }

  /** Forgets a conversation, such as a deleted one. */
  removeConversation(sessionId: string): void {
    this.#conversations.delete(sessionId);
    this.drafts.writeDraft(sessionId, '');
  }

  close(): void {
    removeEventListener('online', this.reconnectNow);
    void this.#client?.then((client) => client.close()).catch(() => undefined);
  }

  #closeOldest(): void {
    for (const [sessionId, conversation] of this.#conversations) {
      if (this.#conversations.size <= MAX_CONVERSATIONS) return;
      if (conversation.getState().live !== undefined) continue;
      this.#conversations.delete(sessionId);
      void this.getClient()
        .then((client) => client.closeSession(sessionId))
        .catch(() => undefined);
    }
  }

  async #connect(): Promise<ChatClient> {
    for (let attempt = 0; ; attempt += 1) {
      this.#change({ type: 'connecting' });
      try {
        const client = await openChat({
          url: location.origin,
          reconnectTimeoutMs: Infinity,
          onStatus: (status) => this.#onStatus(status),
          onSessionUpdated: (session) => {
            this.#conversations.get(session.session_id)?.updateSession(session);
            this.onSessionsChanged();
          },
        });
        client.onArrived((received) => {
          this.#conversations.get(received.sessionId)?.receive(received);
          this.onSessionsChanged();
        });
        return client;
      } catch (error) {
        if (!(error instanceof ChatError)) throw error;
        const delayMs = reconnectDelayMs(ATTEMPT_CODES[error.code] ?? 0, attempt);
        if (delayMs === null) {
          this.#end(error);
          throw error;
        }
        this.#change({ type: 'waiting', endsAt: performance.now() + delayMs });
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, delayMs);
          this.#endWait = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      }
    }
  }

  #onStatus(status: ConnectionStatus): void {
    switch (status.type) {
      case 'waiting':
      case 'unavailable':
        return this.#change({ type: status.type, endsAt: performance.now() + status.delayMs });
      case 'ended':
        return this.#end(status.error);
      case 'quiet':
        return this.#change({ type: 'quiet' });
      case 'connected':
      case 'responsive':
        return this.#change({ type: 'connected' });
    }
  }

  #end({ code }: ChatError): void {
    this.#change({ type: 'ended', code });
    if (code === 'signed_out') this.onSignedOut();
  }

  #change(state: LinkState): void {
    this.#state = state;
    for (const listener of this.#listeners) listener();
  }
}

/** Interval of updates in a window that draws no frames, in milliseconds. */
const HIDDEN_INTERVAL_MS = 250;

/** Calls back before the next frame, or soon in a window that is not drawn. */
function scheduleFrame(callback: () => void): void {
  const run = () => {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
    callback();
  };
  const frame = requestAnimationFrame(run);
  const timer = setTimeout(run, HIDDEN_INTERVAL_MS);
}

let chat: Chat | undefined;

/** Returns the chat of the signed-in user. It outlives its pages, so that answers continue beside other pages. */
export function getChat(userId: string): Chat {
  if (chat?.userId !== userId) {
    chat?.close();
    chat = new Chat(userId);
  }
  return chat;
}
