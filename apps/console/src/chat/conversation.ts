import {
  type AnswerEvent,
  type ChatClient,
  ChatError,
  createMessageId,
  type Message,
  type ReceivedMessage,
  type Session,
  type StreamedAnswer,
} from '@oselya/chat-client';
import type { Part } from '../api.ts';
import type { DraftStore } from './drafts.ts';
import { applyToolEvent, readStoredSteps, type Step } from './steps.ts';

/** Answer that is being written. */
export type LiveAnswer = {
  text: string;
  steps: readonly Step[];
  /** ID of the stored answer that this one replaces. */
  replaces?: string | undefined;
  isCancelling: boolean;
};

export type ConversationState = {
  /** Undefined until the session is open. */
  session: Session | undefined;
  /** Stored messages, oldest first. */
  messages: readonly Message[];
  hasEarlier: boolean;
  /** Message that the server has not confirmed yet. */
  pendingText: string | undefined;
  live: LiveAnswer | undefined;
  /** Why the session could not be opened. */
  openError: unknown;
  /** Why the last message was not sent, or its answer failed without a trace among the messages. */
  failure: { of: 'message' | 'answer'; error: unknown } | undefined;
  /** Latest event for the status region. */
  announcement: 'started' | 'tool' | 'completed' | 'cancelled' | 'failed' | undefined;
};

export type ConversationOptions = {
  sessionId: string;
  getClient: () => Promise<ChatClient>;
  /** Requests the messages of a session, the latest first; each part has its oldest message first. */
  requestMessages: (path: string) => Promise<Part<{ messages: Message[] }>>;
  drafts: DraftStore;
  /** Calls back before the next frame, so that a fast answer is drawn once a frame. */
  schedule: (callback: () => void) => void;
};

const EARLIER_PAGE_SIZE = 100;

/** Errors of a message that the server has not stored. */
const REJECTION_CODES: ReadonlySet<ChatError['code']> = new Set([
  'rejected',
  'too_large',
  'answer_lost',
]);

/** State of one conversation: its stored messages and the answer that is being written. */
export class Conversation {
  readonly #options: ConversationOptions;
  readonly #listeners = new Set<() => void>();
  readonly #liveSteps = new Map<string, readonly Step[]>();
  readonly #storedSteps = new WeakMap<Message, readonly Step[]>();
  #state: ConversationState = {
    session: undefined,
    messages: [],
    hasEarlier: false,
    pendingText: undefined,
    live: undefined,
    openError: undefined,
    failure: undefined,
    announcement: undefined,
  };
  #shownState = this.#state;
  #isScheduled = false;
  #earlierPath: string | null | undefined;
  #isLoadingEarlier = false;
  #opening = Promise.resolve();
  #isSending = false;
  /** Answer whose events are applied. */
  #followed: StreamedAnswer | undefined;

  constructor(options: ConversationOptions) {
    this.#options = options;
  }

  /** State of the last frame. */
  readonly getState = (): ConversationState => this.#shownState;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** Returns the steps of a stored answer. Those of answers that were written in this tab can be undone. */
  readonly getSteps = (message: Message): readonly Step[] => {
    const steps =
      this.#liveSteps.get(message.id) ?? this.#storedSteps.get(message) ?? readStoredSteps(message);
    this.#storedSteps.set(message, steps);
    return steps;
  };

  /** Opens the session, and follows the answer that is being written in it. */
  open(): Promise<void> {
    this.#opening = this.#open();
    return this.#opening;
  }

  async #open(): Promise<void> {
    const { sessionId, getClient, drafts } = this.#options;
    this.#change({ openError: undefined });
    try {
      const { session, messages, answer } = await (await getClient()).openSession(sessionId);
      this.#earlierPath = undefined;
      this.#change({
        session,
        messages,
        hasEarlier: session.message_count > messages.length,
        live: undefined,
      });
      if (answer !== null) void this.#follow(answer);
      const sent = drafts.readSent(sessionId);
      if (sent === undefined || this.#isSending) return;
      const isStored = messages.some(({ client_message_id: id }) => id === sent.clientMessageId);
      if (isStored) drafts.writeSent(sessionId, undefined);
      else void this.send(sent.text, sent.clientMessageId);
    } catch (error) {
      this.#change({ openError: error });
    }
  }

  /**
   * Sends a message. A rejected message comes back as the draft. After the end of the connection it is sent when the
   * session is opened again; the server stores it once.
   */
  async send(text: string, clientMessageId: string = createMessageId()): Promise<void> {
    const { sessionId, getClient, drafts } = this.#options;
    this.#isSending = true;
    drafts.writeSent(sessionId, { text, clientMessageId });
    this.#change({ pendingText: text, failure: undefined });
    // The text leaves the field and comes into the conversation at once.
    this.#show();
    try {
      const client = await getClient();
      // Otherwise the opened session would bring the same answer a second time.
      await this.#opening;
      await this.#follow(client.send(sessionId, text, clientMessageId));
      drafts.writeSent(sessionId, undefined);
      this.#change({ pendingText: undefined });
      const isQuestion = ({ client_message_id: id }: Message) => id === clientMessageId;
      // After a broken connection, the answer can come without its question.
      if (!this.#state.messages.some(isQuestion)) await this.open();
    } catch (error) {
      if (!(error instanceof ChatError) || !REJECTION_CODES.has(error.code)) return;
      drafts.writeSent(sessionId, undefined);
      const draft = drafts.readDraft(sessionId);
      drafts.writeDraft(sessionId, draft === undefined ? text : `${text}\n${draft}`);
      this.#change({ pendingText: undefined, failure: { of: 'message', error } });
    } finally {
      this.#isSending = false;
    }
  }

  /** Asks for another answer to the last message. */
  readonly retry = async (): Promise<void> => {
    const { sessionId, getClient } = this.#options;
    this.#change({ failure: undefined });
    try {
      const client = await getClient();
      await this.#follow(client.retry(sessionId));
    } catch (error) {
      this.#change({ failure: { of: 'answer', error } });
    }
  };

  readonly cancel = async (): Promise<void> => {
    const { sessionId, getClient } = this.#options;
    this.#changeLive({ isCancelling: true });
    try {
      await (await getClient()).cancel(sessionId);
    } catch {
      // The answer has ended meanwhile, or its stream reports the lost connection.
      this.#changeLive({ isCancelling: false });
    }
  };

  /** Reverts the changes of a step in the user's memory. */
  readonly undo = async (stepId: string): Promise<void> => {
    this.#changeStep(stepId, { undo: 'running' });
    try {
      await (await this.#options.getClient()).undo(this.#options.sessionId, stepId);
      this.#changeStep(stepId, { undo: 'done' });
    } catch (error) {
      const code = error instanceof ChatError ? error.problem?.code : undefined;
      this.#changeStep(stepId, { undo: code === 'nothing_to_undo' ? 'failed' : 'possible' });
    }
  };

  /** Adds earlier messages at the beginning. */
  async loadEarlier(): Promise<void> {
    if (this.#isLoadingEarlier || this.#earlierPath === null) return;
    this.#isLoadingEarlier = true;
    try {
      const { sessionId, requestMessages } = this.#options;
      const firstPath = `/sessions/${encodeURIComponent(sessionId)}?limit=${EARLIER_PAGE_SIZE}`;
      for (let isAdded = false; !isAdded && this.#earlierPath !== null;) {
        const { data, next } = await requestMessages(this.#earlierPath ?? firstPath);
        this.#earlierPath = next;
        const knownIds = new Set(this.#state.messages.map(({ id }) => id));
        const earlier = data.messages.filter(({ id }) => !knownIds.has(id));
        isAdded = earlier.length > 0;
        this.#change({
          messages: [...earlier, ...this.#state.messages],
          hasEarlier: next !== null,
        });
      }
    } catch {
      // The next scroll to the beginning tries again.
    } finally {
      this.#isLoadingEarlier = false;
    }
  }

  /** Adds a message that this tab did not send, and follows its answer. */
  receive({ message, answer }: ReceivedMessage): void {
    this.#addMessage(message);
    if (answer !== undefined) void this.#follow(answer).catch(() => undefined);
  }

  updateSession(session: Session): void {
    this.#change({ session });
  }

  /** Reads the events of an answer. Rethrows the error of an answer that did not begin. */
  async #follow(answer: StreamedAnswer): Promise<void> {
    let hasBegun = false;
    this.#followed = answer;
    try {
      for await (const event of answer) {
        if (this.#followed !== answer) return;
        if (!hasBegun) this.#begin();
        hasBegun = true;
        this.#apply(event);
      }
    } catch (error) {
      // The stored part of an answer whose connection ended is shown when the session is opened again.
      if (!hasBegun) throw error;
      this.#change({ failure: { of: 'answer', error } });
    }
  }

  #begin(): void {
    const live = { text: '', steps: [], isCancelling: false };
    this.#change({ live, failure: undefined, announcement: 'started' });
  }

  #apply(event: AnswerEvent): void {
    const { sessionId, drafts } = this.#options;
    switch (event.type) {
      case 'message.started': {
        this.#addMessage(event.message);
        if (drafts.readSent(sessionId)?.clientMessageId === event.message.client_message_id) {
          drafts.writeSent(sessionId, undefined);
          this.#change({ pendingText: undefined });
        }
        this.#changeLive({ replaces: event.replaces });
        return;
      }
      case 'message.delta':
        return this.#changeLive({ text: (this.#state.live?.text ?? '') + event.text });
      case 'tool.started':
      case 'tool.finished':
        this.#changeLive({ steps: applyToolEvent(this.#state.live?.steps ?? [], event) });
        if (event.type === 'tool.started') this.#change({ announcement: 'tool' });
        return;
      case 'message.completed':
        this.#end(event.message);
        return this.#change({
          announcement: event.message.status === undefined ? 'completed' : 'cancelled',
        });
      case 'error': {
        const { message, problem } = event;
        this.#end(message && { ...message, status: 'failed', problem });
        const error = new ChatError('rejected', problem.title, problem);
        const failure = message === undefined ? ({ of: 'answer', error } as const) : undefined;
        return this.#change({ announcement: 'failed', failure });
      }
    }
  }

  #end(message: Message | undefined): void {
    const { live } = this.#state;
    if (message !== undefined) {
      if (live !== undefined && live.steps.length > 0) this.#liveSteps.set(message.id, live.steps);
      this.#addMessage(message, live?.replaces);
    }
    this.#change({ live: undefined });
  }

  /** Adds a message at the end, or in place of the one that it replaces. */
  #addMessage(message: Message, replacedId = message.id): void {
    const { messages } = this.#state;
    const index = messages.findIndex(({ id }) => id === replacedId || id === message.id);
    this.#change({
      messages: index === -1 ? [...messages, message] : messages.with(index, message),
    });
  }

  #changeLive(changes: Partial<LiveAnswer>): void {
    const { live } = this.#state;
    if (live !== undefined) this.#change({ live: { ...live, ...changes } });
  }

  #changeStep(stepId: string, changes: Partial<Step>): void {
    const change = (steps: readonly Step[]) =>
      steps.map((step) => (step.id === stepId ? { ...step, ...changes } : step));
    for (const [messageId, steps] of this.#liveSteps) {
      if (steps.some(({ id }) => id === stepId)) this.#liveSteps.set(messageId, change(steps));
    }
    this.#changeLive({ steps: change(this.#state.live?.steps ?? []) });
    // Steps of stored answers are read beside the messages.
    this.#change({ messages: [...this.#state.messages] });
  }

  #change(changes: Partial<ConversationState>): void {
    this.#state = { ...this.#state, ...changes };
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#options.schedule(() => this.#show());
  }

  #show(): void {
    this.#isScheduled = false;
    if (this.#shownState === this.#state) return;
    this.#shownState = this.#state;
    for (const listener of this.#listeners) listener();
  }
}
