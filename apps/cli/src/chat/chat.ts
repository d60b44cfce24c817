import {
  type ChatClient,
  ChatError,
  describeClose,
  openChat,
  type Status,
} from '@oselya/chat-client';
import { createCookieSocketOpener } from '@oselya/chat-client/node';
import {
  CommandError,
  type Context,
  INTERRUPTED_STATUS,
  type Io,
  createInterruptSignal,
} from '../command.ts';
import { oneLine } from '../terminal.ts';
import {
  AssistantClient,
  createNotAssistantError,
  type SessionCookie,
  formatSlowNotice,
  createUnreachableError,
} from './assistant-client.ts';
import { converse } from './converse.ts';
import { createNoteWriter, showAnswer, showAnswerJson } from './show.ts';
import { SessionCookieStore } from './session-cookie-store.ts';
import { signIn } from './sign-in.ts';

/** Options of a chat. */
export type ChatOptions = {
  /** Base URL of the assistant. */
  url: string;
  /** Message to send. Undefined for a conversation. */
  text: string | undefined;
  /** Session to continue. Undefined for a new session. */
  sessionId: string | undefined;
  /** Profile of a new session. */
  profileId: string | undefined;
  json: boolean;
  opensBrowser: boolean;
};

/**
 * Sends one message to a running assistant, or starts a conversation. Signs the user in if needed.
 * @throws CommandError for every failure that the user can act on.
 */
export async function chat(options: ChatOptions, context: Context): Promise<void> {
  const { url, opensBrowser } = options;
  const { env, stderr, exitWith } = context;
  const note = createNoteWriter(stderr, env);
  const assistant = new AssistantClient(url, note);
  const cookie = await ensureSignedIn(assistant, new SessionCookieStore(env), {
    opensBrowser,
    onMessage: note,
  });
  try {
    const ended = Promise.withResolvers<never>();
    // A single message reports its own failure, so this rejection is ignored.
    ended.promise.catch(() => undefined);
    const notices = { onMessage: note };
    const describe = createStatusReporter((line) => notices.onMessage(line));
    const onStatus = (status: Status) => {
      describe(status);
      if (status.type === 'ended') ended.reject(status.error);
    };
    const client = await openChat({ url, openSocket: createCookieSocketOpener(cookie), onStatus });
    try {
      const status =
        options.text === undefined
          ? await converse(
              {
                ...options,
                client,
                ended: ended.promise,
                sessions: createListSessions(assistant, cookie),
                notices,
              },
              context,
            )
          : await ask(client, { ...options, text: options.text }, context);
      exitWith(status);
    } finally {
      client.close();
    }
  } catch (error) {
    throw error instanceof ChatError ? toCommandError(error, url) : error;
  }
}

/** Signs this terminal out of an assistant and deletes the session cookie. */
export async function signOut(url: string, { env, stderr, print }: Context): Promise<void> {
  const kept = new SessionCookieStore(env);
  const signedInAs = await kept.find(url);
  if (signedInAs === undefined) return print(`This terminal is not signed in at ${url}.`);
  await new AssistantClient(url, createNoteWriter(stderr, env)).signOut(signedInAs);
  await kept.forget(url);
  print(`This terminal is signed out at ${url}.`);
}

/** Returns the stored session cookie if it is valid. Otherwise signs the user in. */
async function ensureSignedIn(
  assistant: AssistantClient,
  kept: SessionCookieStore,
  how: { opensBrowser: boolean; onMessage: (line: string) => void },
): Promise<SessionCookie> {
  const known = await kept.find(assistant.url);
  // Also requested without a cookie, so that no browser opens for an unreachable assistant.
  const account = await assistant.getAccount(known);
  if (known !== undefined && account !== undefined) return known;
  if (known !== undefined) how.onMessage('This terminal was signed out: sign in again.');
  const fresh = await signIn(assistant, how);
  await kept.keep(assistant.url, fresh);
  return fresh;
}

/** Maximum number of listed sessions. */
const MAX_LISTED_SESSIONS = 20;

const createListSessions = (assistant: AssistantClient, cookie: SessionCookie) => () =>
  assistant.listSessions(cookie, MAX_LISTED_SESSIONS);

/** Sends one message and shows the answer. Ctrl-C cancels the answer. A second Ctrl-C ends the command. */
async function ask(
  client: ChatClient,
  { text, sessionId, profileId, json }: ChatOptions & { text: string },
  { env, stdout, stderr, print }: Context,
): Promise<number> {
  const signal = createInterruptSignal();
  const id = sessionId ?? (await client.createSession({ profileId })).session_id;
  const cancel = () => {
    // Cancelling a finished answer fails, which is harmless.
    client.cancel(id).catch(() => undefined);
  };
  signal.addEventListener('abort', cancel);
  if (signal.aborted) return INTERRUPTED_STATUS;
  const answer = client.send(id, text);
  const note = createNoteWriter(stderr, env);
  const ending = json
    ? await showAnswerJson(answer, print)
    : await showAnswer(answer, { text: (part) => void stdout.write(part), note });
  if (signal.aborted) return INTERRUPTED_STATUS;
  return ending === 'completed' ? 0 : 1;
}

/** Creates a function that reports changes of the connection status. */
function createStatusReporter(note: (line: string) => void): (status: Status) => void {
  let isLost = false;
  return (status) => {
    switch (status.type) {
      case 'waiting': {
        const { code, reason, delayMs } = status;
        isLost = true;
        // Only code 1006 has a useful reason from the system.
        const detail = code === 1006 && reason !== '' ? ` (${oneLine(reason)})` : '';
        note(
          `The connection was lost: ${describeClose(code)}${detail}. Reconnecting in ${seconds(delayMs)} s.`,
        );
        break;
      }
      case 'connected':
        if (isLost) note('Reconnected.');
        isLost = false;
        break;
      case 'quiet':
        note(formatSlowNotice(seconds(status.quietMs)));
        break;
      case 'responsive':
        note('The assistant answers again.');
        break;
      case 'unavailable':
        note(`${oneLine(status.problem.title)}: retrying in ${seconds(status.delayMs)} s.`);
    }
  };
}

const seconds = (ms: number): number => Math.ceil(ms / 1000);

/** Converts a connection error to a CommandError with advice. */
function toCommandError(error: ChatError, url: string): CommandError {
  switch (error.code) {
    case 'signed_out':
      return new CommandError('the sign-in has ended: run the command again to sign in', {
        cause: error,
      });
    case 'forbidden':
      return new CommandError('this account has no permission for this: ask an administrator', {
        cause: error,
      });
    case 'too_many':
      return new CommandError(
        'too many connections or messages from this account: close some, and try again in two minutes',
        { cause: error },
      );
    case 'too_large':
      return new CommandError('the message is too large: shorten it', { cause: error });
    case 'unreachable':
      return createUnreachableError(url, oneLine(error.message), error);
    case 'no_assistant':
      return createNotAssistantError(url);
    default:
      return new CommandError(oneLine(error.message), { cause: error });
  }
}

/** Maximum size of a message from standard input. */
const MAX_INPUT_BYTES = 256 * 1024;

/**
 * Reads the message of a command from its arguments or from standard input.
 * @returns Undefined for a terminal without arguments.
 */
export async function readMessage(
  words: readonly string[],
  stdin: Io['stdin'],
): Promise<string | undefined> {
  if (words.length > 0) return words.join(' ').trim();
  if (stdin.isTTY === true) return undefined;
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stdin) {
    chunks.push(Buffer.from(chunk));
    bytes += chunk.length;
    if (bytes > MAX_INPUT_BYTES) break;
  }
  return Buffer.concat(chunks).toString().trim();
}
