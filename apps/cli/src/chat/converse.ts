import { createInterface, type Interface } from 'node:readline';
import {
  type ChatClient,
  ChatError,
  MAX_MESSAGE_LENGTH,
  type Message,
  type ReceivedMessage,
  type StreamedAnswer,
} from '@oselya/chat-client';
import { INTERRUPTED_STATUS, type Io } from '../command.ts';
import { sanitizeLine, sanitizeText } from '../terminal.ts';
import type { ListedSessions } from './assistant-client.ts';
import {
  ConversationScreen,
  describeChange,
  type ToolFinishedEvent,
  showAnswer,
} from './screen.ts';

type ConversationOptions = {
  client: ChatClient;
  /** Rejects when the client stops reconnecting. */
  connectionEnd: Promise<never>;
  listSessions: () => Promise<ListedSessions>;
  sessionId: string | undefined;
  profileId: string | undefined;
  /** Receives notices about the connection. The conversation replaces `onMessage`. */
  notices: { onMessage: (line: string) => void };
};

const HELP_LINES = [
  '/new          start a new session',
  '/sessions     list your latest sessions',
  '/open N       open the session with this number or id',
  '/retry        request another answer to the last message',
  '/undo         undo the latest change of your memory; repeat for earlier ones',
  '/cancel       cancel the answer in progress (also Ctrl-C)',
  '/quit         leave (also Ctrl-D)',
];

const MAX_SHOWN_MESSAGES = 6;

/** Problem codes of an undo that cannot succeed on a retry. */
const FINAL_UNDO_CODES: ReadonlySet<string | undefined> = new Set([
  'nothing_to_undo',
  'session_not_found',
  'session_not_yours',
]);

/** Codes of errors that concern a single message. */
const MESSAGE_ERROR_CODES: ReadonlySet<string> = new Set(['rejected', 'too_large', 'answer_lost']);

/**
 * Holds a conversation at the terminal, line by line, until the user leaves.
 * @returns The exit status: 0, or 130 after Ctrl-C.
 * @throws ChatError if the first session cannot be opened, and when the connection has ended for good.
 */
export async function converse(options: ConversationOptions, io: Io): Promise<number> {
  return new Conversation(options, io).run();
}

class Conversation {
  readonly #client: ChatClient;
  readonly #options: ConversationOptions;
  readonly #screen: ConversationScreen;
  readonly #terminal: Interface;
  readonly #exitStatus = Promise.withResolvers<number>();
  #sessionId: string | undefined;
  #listedSessions: ListedSessions = [];
  /** Memory changes that can be undone, oldest first. */
  readonly #memoryChanges: ToolFinishedEvent[] = [];
  /** Queue of input lines, of which the user may paste several, and of received messages. */
  #inputQueue = Promise.resolve();
  #isClosed = false;
  #isAnswering = false;
  #isCancelling = false;

  readonly #commands = new Map<string, (argument: string) => Promise<void> | void>([
    ['/help', () => this.#writeNote(...HELP_LINES)],
    ['/quit', () => this.#exitStatus.resolve(0)],
    ['/new', () => this.#startSession()],
    ['/sessions', () => this.#printSessions()],
    ['/open', (reference) => this.#openByReference(reference)],
    ['/retry', () => this.#retry()],
    ['/undo', () => this.#undo()],
    ['/cancel', () => this.#writeNote('No answer is in progress.')],
  ]);

  constructor(options: ConversationOptions, { stdin, stdout, env }: Io) {
    this.#options = options;
    this.#client = options.client;
    this.#terminal = createInterface({
      input: stdin,
      output: stdout,
      terminal: true,
      prompt: '> ',
    });
    this.#screen = new ConversationScreen(stdout, this.#terminal, env);
  }

  async run(): Promise<number> {
    const { notices, connectionEnd, sessionId } = this.#options;
    const terminal = this.#terminal;
    this.#client.onArrived((receivedMessage) => {
      this.#inputQueue = this.#inputQueue.then(() => this.#showReceived(receivedMessage));
    });
    notices.onMessage = (line) => this.#writeNote(line);
    terminal.on('line', (line) => this.#onLine(line.trim()));
    terminal.on('SIGINT', () => this.#onInterrupt());
    terminal.on('close', () => {
      this.#isClosed = true;
      this.#exitStatus.resolve(0);
    });
    // Wait for the answer in progress, which reports its own failure.
    connectionEnd.catch((error: unknown) =>
      this.#inputQueue.then(() => this.#exitStatus.reject(error)),
    );
    try {
      this.#writeNote('Ask for what you look for. /help lists the commands, /quit leaves.');
      this.#inputQueue = this.#openFirstSession(sessionId);
      return await this.#exitStatus.promise;
    } finally {
      terminal.close();
    }
  }

  async #openFirstSession(sessionId: string | undefined): Promise<void> {
    try {
      const answer = sessionId === undefined ? null : await this.#open(sessionId);
      await this.#guard(() => this.#show(answer));
      this.#showPrompt();
    } catch (error) {
      this.#exitStatus.reject(error);
    }
  }

  #writeNote(...lines: string[]): void {
    for (const line of lines) this.#screen.writeNote(line);
  }

  #showPrompt(): void {
    if (!this.#isClosed) this.#screen.showPrompt();
  }

  /** Cancels the answer in progress, or ends the conversation. */
  #onInterrupt(): void {
    if (this.#isAnswering && !this.#isCancelling) void this.#guard(() => this.#cancel());
    else this.#exitStatus.resolve(INTERRUPTED_STATUS);
  }

  #onLine(line: string): void {
    this.#screen.onEnter();
    if (!this.#isAnswering) {
      this.#inputQueue = this.#executeAfter(this.#inputQueue, line);
    } else if (line === '/quit') {
      this.#exitStatus.resolve(0);
    } else if (line === '/cancel') {
      void this.#guard(() => this.#cancel());
    } else if (line !== '') {
      this.#writeNote('An answer is in progress: /cancel ends it.');
    }
  }

  async #executeAfter(previousLine: Promise<void>, line: string): Promise<void> {
    await previousLine;
    // The previous pasted line may have redrawn the prompt.
    this.#screen.clearPrompt();
    await this.#guard(() => this.#execute(line));
    this.#showPrompt();
  }

  /** Runs an action and shows its error. A ChatError that concerns more than one message ends the conversation. */
  async #guard(action: () => Promise<void> | void): Promise<void> {
    try {
      await action();
    } catch (error) {
      const isFatal = error instanceof ChatError && !MESSAGE_ERROR_CODES.has(error.code);
      if (isFatal || !(error instanceof Error)) this.#exitStatus.reject(error);
      else this.#writeNote(sanitizeLine(error.message));
    }
  }

  #execute(line: string): Promise<void> | void {
    if (line === '') return;
    const [name = '', argument = ''] = line.split(/\s+/, 2);
    const command = this.#commands.get(name);
    if (command !== undefined) return command(argument);
    if (!/^\/\w+$/.test(name)) return this.#send(line);
    this.#writeNote(`There is no ${sanitizeLine(name)}: /help lists the commands.`);
  }

  #startSession(): void {
    this.#sessionId = undefined;
    this.#writeNote('The next message starts a new session.');
  }

  async #send(text: string): Promise<void> {
    if (text.length > MAX_MESSAGE_LENGTH) {
      this.#writeNote(`The message is longer than ${MAX_MESSAGE_LENGTH} characters.`);
      return;
    }
    const { profileId } = this.#options;
    this.#sessionId ??= (await this.#client.createSession({ profileId })).session_id;
    await this.#show(this.#client.send(this.#sessionId, text));
  }

  async #retry(): Promise<void> {
    if (this.#sessionId === undefined) this.#writeNote('There is no answer yet.');
    else await this.#show(this.#client.retry(this.#sessionId));
  }

  #onChange(event: ToolFinishedEvent): void {
    this.#memoryChanges.push(event);
    this.#writeNote(
      ...event.tool.changes.map((change) => `${describeChange(change)}. /undo reverts it.`),
    );
  }

  async #undo(): Promise<void> {
    const event = this.#memoryChanges.at(-1);
    if (event === undefined) return this.#writeNote('There is no change to undo.');
    try {
      await this.#client.undo(event.session_id, event.tool.step_id);
    } catch (error) {
      // A change remains after a temporary failure, so that the user can retry the undo.
      if (error instanceof ChatError && FINAL_UNDO_CODES.has(error.problem?.code)) {
        this.#memoryChanges.pop();
      }
      throw error;
    }
    this.#memoryChanges.pop();
    this.#writeNote(...event.tool.changes.map((change) => `Undone: ${describeChange(change)}`));
  }

  async #cancel(): Promise<void> {
    if (this.#sessionId === undefined || !this.#isAnswering) return;
    this.#isCancelling = true;
    await this.#client.cancel(this.#sessionId);
  }

  async #show(answer: StreamedAnswer | null): Promise<void> {
    if (answer === null) return;
    this.#isAnswering = true;
    this.#isCancelling = false;
    try {
      await showAnswer(answer, this.#screen, (event) => this.#onChange(event));
    } finally {
      this.#isAnswering = false;
    }
  }

  /** Shows a digest, or a message from another client with its answer, between answers. */
  async #showReceived({ sessionId, message, answer }: ReceivedMessage): Promise<void> {
    if (this.#isClosed) return;
    if (sessionId !== this.#sessionId) {
      if (message.unasked !== true) return;
      return this.#writeNote(`Another session has a new message: /open ${sanitizeLine(sessionId)}`);
    }
    if (answer !== undefined) this.#screen.clearPrompt();
    this.#screen.writeText(formatMessage(message));
    if (answer === undefined) return;
    await this.#guard(() => this.#show(answer));
    this.#showPrompt();
  }

  async #printSessions(): Promise<void> {
    this.#listedSessions = await this.#options.listSessions();
    if (this.#listedSessions.length === 0) this.#writeNote('There is no session yet.');
    for (const [index, session] of this.#listedSessions.entries()) {
      const name = sanitizeLine(session.name) || '(without a name)';
      const time = sanitizeLine(session.last_active).slice(0, 16).replace('T', ' ');
      const number = String(index + 1).padStart(3);
      this.#writeNote(`${number}  ${time}  ${name}, ${session.message_count} messages`);
    }
  }

  /** Opens a session. @param reference Number of the session in the list, or its ID. */
  async #openByReference(reference: string): Promise<void> {
    if (reference === '') return this.#writeNote('/open needs a number of /sessions, or an id.');
    let id: string | undefined = reference;
    if (/^\d{1,3}$/.test(reference)) {
      if (this.#listedSessions.length === 0)
        this.#listedSessions = await this.#options.listSessions();
      id = this.#listedSessions[Number(reference) - 1]?.session_id;
    }
    if (id === undefined)
      this.#writeNote(`There is no session ${reference}: /sessions lists them.`);
    else await this.#show(await this.#open(id));
  }

  /** Opens a session and shows its latest messages. Returns its answer in progress, if any. */
  async #open(sessionId: string): Promise<StreamedAnswer | null> {
    const { session, messages, answer } = await this.#client.openSession(sessionId);
    this.#sessionId = session.session_id;
    this.#writeNote(`Session ${sanitizeLine(session.name) || sanitizeLine(session.session_id)}`);
    for (const message of messages.slice(-MAX_SHOWN_MESSAGES)) {
      this.#screen.writeText(formatMessage(message));
    }
    return answer;
  }
}

/** Formats a stored message. The user's messages begin with the prompt sign. */
function formatMessage({ role, content }: Message): string {
  return `${role === 'user' ? '> ' : ''}${sanitizeText(content)}\n`;
}
