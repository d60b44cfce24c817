import { createInterface, type Interface } from 'node:readline';
import {
  type Answer,
  type Arrived,
  type ChatClient,
  ChatError,
  type Message,
} from '@oselya/chat-client';
import { MAX_TEXT_LENGTH } from '@oselya/kit';
import type { Io } from '../command.ts';
import { INTERRUPTED } from '../command.ts';
import { oneLine, printableText } from '../terminal.ts';
import { ConversationScreen } from './show.ts';
import { describeChange, type FinishedStep, show } from './show.ts';

type ListedSession = {
  session_id: string;
  name: string;
  message_count: number;
  last_active: string;
};

type Options = {
  client: ChatClient;
  /** Fails when the client will have no other connection. */
  ended: Promise<never>;
  /** The user's latest sessions. */
  sessions: () => Promise<ListedSession[]>;
  sessionId: string | undefined;
  profileId: string | undefined;
  /** Tells of the connection: here by the conversation, between what else is shown. */
  notices: { tell: (line: string) => void };
};

const HELP = [
  '/new          begin a new session',
  '/sessions     list your latest sessions',
  '/open N       go on with the session of that number, or of that id',
  '/retry        have the last message answered again',
  '/undo         take back what was remembered last, then what was before it',
  '/cancel       end the answer that is being written (Ctrl-C does, too)',
  '/quit         leave (Ctrl-D does, too)',
];

/** How many messages of a session that is opened are shown. */
const SHOWN_MESSAGES = 6;

/**
 * A conversation at the terminal, line by line, until the person leaves.
 * @returns The exit status: 0, or 130 where Ctrl-C ended it.
 * @throws ChatError when the connection cannot be had again, whether or not anything is asked meanwhile.
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
  /** What changed the memory and was not taken back, the latest last. */
  readonly #changed: FinishedStep[] = [];
  /** Lines are done one after another: several may be pasted at once. */
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
    this.#options.notices.tell = (line) => this.#screen.note(line);
    lines.on('line', (line) => this.#take(line.trim()));
    lines.on('SIGINT', () => this.#interrupt());
    lines.on('close', () => {
      this.#isClosed = true;
      this.#ended.resolve(0);
    });
    // After the answer that is being written, which shows what has come of it and fails by itself.
    this.#options.ended.catch((error: unknown) => this.#work.then(() => this.#ended.reject(error)));
    try {
      this.#screen.note('Ask for what you look for. /help lists the commands, /quit leaves.');
      this.#work = this.#begin(this.#sessionId);
      return await this.#ended.promise;
    } finally {
      lines.close();
    }
  }

  /** Opens the session that was asked for: who waits for it may leave, and without it there is no conversation. */
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

  /** Ctrl-C cancels an answer that is being written; a second one, or one without an answer, leaves. */
  #interrupt(): void {
    if (this.#isAnswering && !this.#isCancelling) void this.#guard(() => this.#cancel());
    else this.#ended.resolve(INTERRUPTED);
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
      this.#screen.note('An answer is being written: /cancel ends it.');
    }
  }

  async #after(earlier: Promise<void>, line: string): Promise<void> {
    await earlier;
    // Of several lines that were pasted, one before has brought it back.
    this.#screen.clearPrompt();
    await this.#guard(() => this.#do(line));
    this.#prompt();
  }

  /** A refusal is told, and the conversation goes on; without a connection it does not. */
  async #guard(work: () => Promise<void> | void): Promise<void> {
    try {
      await work();
    } catch (error) {
      const isOver = error instanceof ChatError && !GOES_ON.has(error.code);
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
        this.#screen.note('The next message begins a new session.');
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
        this.#screen.note('No answer is being written.');
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
    if (text.length > MAX_TEXT_LENGTH) {
      this.#screen.note(`The message is longer than ${MAX_TEXT_LENGTH} characters.`);
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
      this.#screen.note(`${describeChange(change)}. /undo takes it back.`);
    }
  }

  async #undo(): Promise<void> {
    const step = this.#changed.at(-1);
    if (step === undefined) {
      this.#screen.note('Nothing was remembered here that can be taken back.');
      return;
    }
    try {
      await this.#client.undo(step.session_id, step.tool.step_id);
    } catch (error) {
      // What was refused for now stays the latest: the person asks again, as the refusal says.
      if (error instanceof ChatError && CANNOT_UNDO.has(error.problem?.code)) this.#changed.pop();
      throw error;
    }
    this.#changed.pop();
    for (const change of step.tool.changes) {
      this.#screen.note(`Taken back: ${describeChange(change)}`);
    }
  }

  async #cancel(): Promise<void> {
    if (this.#sessionId === undefined || !this.#isAnswering) return;
    this.#isCancelling = true;
    await this.#client.cancel(this.#sessionId);
  }

  async #show(answer: Answer | null): Promise<void> {
    if (answer === null) return;
    this.#isAnswering = true;
    this.#isCancelling = false;
    try {
      await show(answer, this.#screen, (step) => this.#noteChanged(step));
    } finally {
      this.#isAnswering = false;
    }
  }

  /** Shows what came by itself, or from another terminal, between answers. */
  async #showArrived({ sessionId, message, answer }: Arrived): Promise<void> {
    if (this.#isClosed) return;
    if (sessionId !== this.#sessionId) {
      const news = `There is news in another session: /open ${oneLine(sessionId)}`;
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

  /** The session of a number in the list that was shown, or would be. */
  async #numbered(number: number): Promise<string | undefined> {
    if (this.#listed.length === 0) this.#listed = await this.#options.sessions();
    return this.#listed[number - 1]?.session_id;
  }

  /** @returns The answer that is being written in the session. */
  async #open(sessionId: string): Promise<Answer | null> {
    const { session, messages, answer } = await this.#client.openSession(sessionId);
    this.#sessionId = session.session_id;
    this.#screen.note(`Session ${oneLine(session.name) || oneLine(session.session_id)}`);
    for (const message of messages.slice(-SHOWN_MESSAGES)) this.#screen.text(messageText(message));
    return answer;
  }
}

/** A stored message, with the mark of a question where it is one. */
function messageText({ role, content }: Message): string {
  return `${role === 'user' ? '> ' : ''}${printableText(content)}\n`;
}

/** Problems of a step that is not taken back however often it is asked for. */
const CANNOT_UNDO: ReadonlySet<string | undefined> = new Set([
  'nothing_to_undo',
  'session_not_found',
  'session_not_yours',
]);

/** Errors of one message, after which there may be another. */
const GOES_ON: ReadonlySet<string> = new Set(['refused', 'too_large', 'answer_lost']);
