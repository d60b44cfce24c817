import { createInterface, type Interface } from 'node:readline';
import {
  type StreamedAnswer,
  type ReceivedMessage,
  type ChatClient,
  ChatError,
  MAX_MESSAGE_LENGTH,
  type Message,
} from '@oselya/chat-client';
import type { Io } from '../command.ts';
import { INTERRUPTED_STATUS } from '../command.ts';
import { oneLine, printableText } from '../terminal.ts';
import { ConversationScreen } from './show.ts';
import { describeChange, type FinishedStep, showAnswer } from './show.ts';

type ListedSession = {
  session_id: string;
  name: string;
  message_count: number;
  last_active: string;
};

type Options = {
  client: ChatClient;
  /** Rejects when the client gives up reconnecting. */
  ended: Promise<never>;
  /** Returns the user's latest sessions. */
  sessions: () => Promise<ListedSession[]>;
  sessionId: string | undefined;
  profileId: string | undefined;
  /** Receives notices about the connection. The conversation replaces `onMessage`. */
  notices: { onMessage: (line: string) => void };
};

const HELP = [
  '/new          start a new session',
  '/sessions     list your latest sessions',
  '/open N       open the session with this number or id',
  '/retry        request another answer to the last message',
  '/undo         undo the latest change of your memory; repeat for earlier ones',
  '/cancel       cancel the answer in progress (also Ctrl-C)',
  '/quit         leave (also Ctrl-D)',
];

/** Number of earlier messages shown for an opened session. */
const SHOWN_MESSAGES = 6;

/**
 * Holds a conversation at the terminal, line by line, until the user leaves.
 * @returns The exit status: 0, or 130 after Ctrl-C.
 * @throws ChatError when the connection is lost for good.
 */
export async function converse(options: Options, io: Io): Promise<number> {
  return new Conversation(options, io).run();
}

class Conversation {
  readonly #client: ChatClient;
  readonly #options: Options;
  readonly #screen: ConversationScreen;
  readonly #lines: Interface;
  readonly #ended = Promise.withResolvers<number>();
  #sessionId: string | undefined;
  #listed: ListedSession[] = [];
  /** Memory changes that can be undone, oldest first. */
  readonly #changed: FinishedStep[] = [];
  /** Queue of input lines. Several lines may be pasted at once. */
  #work = Promise.resolve();
  #isClosed = false;
  #isAnswering = false;
  #isCancelling = false;

  constructor(options: Options, { stdin, stdout, env }: Io) {
    this.#options = options;
    this.#client = options.client;
    this.#sessionId = options.sessionId;
    this.#lines = createInterface({ input: stdin, output: stdout, terminal: true, prompt: '> ' });
    this.#screen = new ConversationScreen(stdout, this.#lines, env);
  }

  async run(): Promise<number> {
    const lines = this.#lines;
    this.#client.onArrived((arrived) => {
      this.#work = this.#work.then(() => this.#showArrived(arrived));
    });
    this.#options.notices.onMessage = (line) => this.#screen.note(line);
    lines.on('line', (line) => this.#take(line.trim()));
    lines.on('SIGINT', () => this.#interrupt());
    lines.on('close', () => {
      this.#isClosed = true;
      this.#ended.resolve(0);
    });
    // Wait for the answer in progress, which reports its own failure.
    this.#options.ended.catch((error: unknown) => this.#work.then(() => this.#ended.reject(error)));
    try {
      this.#screen.note('Ask for what you look for. /help lists the commands, /quit leaves.');
      this.#work = this.#begin(this.#sessionId);
      return await this.#ended.promise;
    } finally {
      lines.close();
    }
  }

  /** Opens the requested session. A failure ends the conversation. */
  async #begin(sessionId: string | undefined): Promise<void> {
    try {
      const answer = sessionId === undefined ? null : await this.#open(sessionId);
      await this.#guard(() => this.#show(answer));
      this.#prompt();
    } catch (error) {
      this.#ended.reject(error);
    }
  }

  #prompt(): void {
    if (!this.#isClosed) this.#screen.prompt();
  }

  /** Handles Ctrl-C: cancels the answer in progress, or ends the conversation. */
  #interrupt(): void {
    if (this.#isAnswering && !this.#isCancelling) void this.#guard(() => this.#cancel());
    else this.#ended.resolve(INTERRUPTED_STATUS);
  }

  #take(line: string): void {
    this.#screen.entered();
    if (!this.#isAnswering) {
      this.#work = this.#after(this.#work, line);
    } else if (line === '/quit') {
      this.#ended.resolve(0);
    } else if (line === '/cancel') {
      void this.#guard(() => this.#cancel());
    } else if (line !== '') {
      this.#screen.note('An answer is in progress: /cancel ends it.');
    }
  }

  async #after(earlier: Promise<void>, line: string): Promise<void> {
    await earlier;
    // The previous pasted line may have redrawn the prompt.
    this.#screen.clearPrompt();
    await this.#guard(() => this.#do(line));
    this.#prompt();
  }

  /** Runs an action and shows its error. A lost connection ends the conversation. */
  async #guard(work: () => Promise<void> | void): Promise<void> {
    try {
      await work();
    } catch (error) {
      const isOver = error instanceof ChatError && !MESSAGE_ERRORS.has(error.code);
      if (isOver || !(error instanceof Error)) this.#ended.reject(error);
      else this.#screen.note(oneLine(error.message));
    }
  }

  #do(line: string): Promise<void> | void {
    const [command = '', argument = ''] = line.split(/\s+/, 2);
    switch (command) {
      case '':
        return;
      case '/help':
        for (const text of HELP) this.#screen.note(text);
        return;
      case '/quit':
        this.#ended.resolve(0);
        return;
      case '/new':
        this.#sessionId = undefined;
        this.#screen.note('The next message starts a new session.');
        return;
      case '/sessions':
        return this.#list();
      case '/open':
        return this.#choose(argument);
      case '/retry':
        return this.#retry();
      case '/undo':
        return this.#undo();
      case '/cancel':
        this.#screen.note('No answer is in progress.');
        return;
      default:
        if (/^\/\w+$/.test(command)) {
          this.#screen.note(`There is no ${oneLine(command)}: /help lists the commands.`);
          return;
        }
        return this.#say(line);
    }
  }

  async #say(text: string): Promise<void> {
    if (text.length > MAX_MESSAGE_LENGTH) {
      this.#screen.note(`The message is longer than ${MAX_MESSAGE_LENGTH} characters.`);
      return;
    }
    const { profileId } = this.#options;
    this.#sessionId ??= (await this.#client.createSession({ profileId })).session_id;
    await this.#show(this.#client.send(this.#sessionId, text));
  }

  async #retry(): Promise<void> {
    if (this.#sessionId === undefined) this.#screen.note('There is no answer yet.');
    else await this.#show(this.#client.retry(this.#sessionId));
  }

  #noteChanged(step: FinishedStep): void {
    this.#changed.push(step);
    for (const change of step.tool.changes) {
      this.#screen.note(`${describeChange(change)}. /undo reverts it.`);
    }
  }

  async #undo(): Promise<void> {
    const step = this.#changed.at(-1);
    if (step === undefined) {
      this.#screen.note('There is no change to undo.');
      return;
    }
    try {
      await this.#client.undo(step.session_id, step.tool.step_id);
    } catch (error) {
      // A change remains after a temporary failure, so that the user can retry the undo.
      if (error instanceof ChatError && CANNOT_UNDO.has(error.problem?.code)) this.#changed.pop();
      throw error;
    }
    this.#changed.pop();
    for (const change of step.tool.changes) {
      this.#screen.note(`Undone: ${describeChange(change)}`);
    }
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
      await showAnswer(answer, this.#screen, (step) => this.#noteChanged(step));
    } finally {
      this.#isAnswering = false;
    }
  }

  /** Shows a digest, or messages from another terminal, between answers. */
  async #showArrived({ sessionId, message, answer }: ReceivedMessage): Promise<void> {
    if (this.#isClosed) return;
    if (sessionId !== this.#sessionId) {
      const news = `Another session has a new message: /open ${oneLine(sessionId)}`;
      if (message.unasked === true) this.#screen.note(news);
      return;
    }
    if (answer !== undefined) this.#screen.clearPrompt();
    this.#screen.text(messageText(message));
    if (answer === undefined) return;
    await this.#guard(() => this.#show(answer));
    this.#prompt();
  }

  async #list(): Promise<void> {
    this.#listed = await this.#options.sessions();
    if (this.#listed.length === 0) this.#screen.note('There is no session yet.');
    for (const [index, session] of this.#listed.entries()) {
      const { name, message_count: count, last_active: at } = session;
      const shown = oneLine(name) || '(without a name)';
      const when = oneLine(at).slice(0, 16).replace('T', ' ');
      this.#screen.note(`${String(index + 1).padStart(3)}  ${when}  ${shown}, ${count} messages`);
    }
  }

  async #choose(which: string): Promise<void> {
    const chosen = /^\d{1,3}$/.test(which) ? await this.#numbered(Number(which)) : which;
    if (chosen === '') this.#screen.note('/open needs a number of /sessions, or an id.');
    else if (chosen === undefined) {
      this.#screen.note(`There is no session ${which}: /sessions lists them.`);
    } else await this.#show(await this.#open(chosen));
  }

  /** Returns the id of the session with a number in the list. */
  async #numbered(number: number): Promise<string | undefined> {
    if (this.#listed.length === 0) this.#listed = await this.#options.sessions();
    return this.#listed[number - 1]?.session_id;
  }

  /** Opens a session. Returns its answer in progress, if any. */
  async #open(sessionId: string): Promise<StreamedAnswer | null> {
    const { session, messages, answer } = await this.#client.openSession(sessionId);
    this.#sessionId = session.session_id;
    this.#screen.note(`Session ${oneLine(session.name) || oneLine(session.session_id)}`);
    for (const message of messages.slice(-SHOWN_MESSAGES)) this.#screen.text(messageText(message));
    return answer;
  }
}

/** Formats a stored message. Questions begin with the prompt. */
function messageText({ role, content }: Message): string {
  return `${role === 'user' ? '> ' : ''}${printableText(content)}\n`;
}

/** Problem codes of an undo for which a retry is useless. */
const CANNOT_UNDO: ReadonlySet<string | undefined> = new Set([
  'nothing_to_undo',
  'session_not_found',
  'session_not_yours',
]);

/** Errors that concern one message only. */
const MESSAGE_ERRORS: ReadonlySet<string> = new Set(['rejected', 'too_large', 'answer_lost']);
