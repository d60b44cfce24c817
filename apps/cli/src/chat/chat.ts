import {
  type ChatClient,
  ChatError,
  describeClose,
  openChat,
  type ConnectionStatus,
} from '@oselya/chat-client';
import { checkFrame, createCookieSocketOpener } from '@oselya/chat-client/node';
import {
  CommandError,
  type Context,
  createInterruptSignal,
  INTERRUPTED_STATUS,
  type Io,
} from '../command.ts';
import { sanitizeLine } from '../terminal.ts';
import {
  AssistantClient,
  createNotAssistantError,
  createUnreachableError,
  formatSlowNotice,
  type SessionCookie,
} from './assistant-client.ts';
import { converse } from './converse.ts';
import { createNoteWriter, showAnswer, showAnswerJson } from './screen.ts';
import { SessionCookieStore } from './session-cookie-store.ts';
import { signIn } from './sign-in.ts';

const MAX_LISTED_SESSIONS = 20;

export type ChatOptions = {
  url: string;
  /** Message to send. Undefined for a conversation. */
  text: string | undefined;
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
  const { url, text, opensBrowser } = options;
  const { env, stderr, exitWith } = context;
  const writeNote = createNoteWriter(stderr, env);
  const assistant = new AssistantClient(url, writeNote);
  const cookie = await ensureSignedIn(assistant, { env, opensBrowser, writeNote });
  const connectionEnd = Promise.withResolvers<never>();
  // Only a conversation handles this rejection. A single message reports its own failure.
  connectionEnd.promise.catch(() => undefined);
  const notices = { onMessage: writeNote };
  const reportStatus = createStatusReporter((line) => notices.onMessage(line));
  const onStatus = (status: ConnectionStatus) => {
    reportStatus(status);
    if (status.type === 'ended') connectionEnd.reject(status.error);
  };
  try {
    const client = await openChat({
      url,
      openSocket: createCookieSocketOpener(cookie),
      checkFrame,
      onStatus,
    });
    const listSessions = () => assistant.listSessions(cookie, MAX_LISTED_SESSIONS);
    const exitStatus = await (
      text === undefined
        ? converse(
            { ...options, client, connectionEnd: connectionEnd.promise, listSessions, notices },
            context,
          )
        : sendMessage(client, { ...options, text }, context)
    ).finally(() => client.close());
    exitWith(exitStatus);
  } catch (error) {
    throw error instanceof ChatError ? createCommandError(error, url) : error;
  }
}

/** Signs this terminal out of an assistant and deletes the session cookie. */
export async function signOut(url: string, { env, stderr, print }: Context): Promise<void> {
  const store = new SessionCookieStore(env);
  const cookie = await store.find(url);
  if (cookie === undefined) return print(`This terminal is not signed in at ${url}.`);
  await new AssistantClient(url, createNoteWriter(stderr, env)).signOut(cookie);
  await store.delete(url);
  print(`This terminal is signed out at ${url}.`);
}

/** Returns the stored session cookie if it is valid. Otherwise signs the user in and stores the new cookie. */
async function ensureSignedIn(
  assistant: AssistantClient,
  options: { env: NodeJS.ProcessEnv; opensBrowser: boolean; writeNote: (line: string) => void },
): Promise<SessionCookie> {
  const store = new SessionCookieStore(options.env);
  const storedCookie = await store.find(assistant.url);
  // Even without a cookie, this request detects an unreachable assistant before a browser opens.
  const account = await assistant.getAccount(storedCookie);
  if (storedCookie !== undefined && account !== undefined) return storedCookie;
  if (storedCookie !== undefined) options.writeNote('This terminal was signed out: sign in again.');
  const cookie = await signIn(assistant, options);
  await store.save(assistant.url, cookie);
  return cookie;
}

/** Sends one message and shows the answer. Ctrl-C cancels the answer. A second Ctrl-C ends the command. */
async function sendMessage(
  client: ChatClient,
  { text, sessionId, profileId, json }: ChatOptions & { text: string },
  { env, stdout, stderr, print }: Context,
): Promise<number> {
  const signal = createInterruptSignal();
  const id = sessionId ?? (await client.createSession({ profileId })).session_id;
  signal.addEventListener('abort', () => {
    // Cancelling a finished answer fails, which is harmless.
    client.cancel(id).catch(() => undefined);
  });
  if (signal.aborted) return INTERRUPTED_STATUS;
  const answer = client.send(id, text);
  const screen = {
    writeText: (part: string) => void stdout.write(part),
    writeNote: createNoteWriter(stderr, env),
  };
  const outcome = await (json ? showAnswerJson(answer, print) : showAnswer(answer, screen));
  if (signal.aborted) return INTERRUPTED_STATUS;
  return outcome === 'completed' ? 0 : 1;
}

/** Creates a function that reports changes of the connection status, except its end. */
function createStatusReporter(
  writeNote: (line: string) => void,
): (status: ConnectionStatus) => void {
  let isConnectionLost = false;
  return (status) => {
    switch (status.type) {
      case 'waiting': {
        const { code, reason, delayMs } = status;
        isConnectionLost = true;
        // Only close code 1006 has a useful reason, which comes from the system.
        const reasonSuffix = code === 1006 && reason !== '' ? ` (${sanitizeLine(reason)})` : '';
        const message = `The connection was lost: ${describeClose(code)}${reasonSuffix}`;
        writeNote(`${message}. Reconnecting in ${toSeconds(delayMs)} s.`);
        break;
      }
      case 'connected':
        if (isConnectionLost) writeNote('Reconnected.');
        isConnectionLost = false;
        break;
      case 'quiet':
        writeNote(formatSlowNotice(toSeconds(status.quietMs)));
        break;
      case 'responsive':
        writeNote('The assistant answers again.');
        break;
      case 'unavailable':
        writeNote(
          `${sanitizeLine(status.problem.title)}: retrying in ${toSeconds(status.delayMs)} s.`,
        );
    }
  };
}

const toSeconds = (ms: number): number => Math.ceil(ms / 1000);

const ADVICE_BY_CODE: Readonly<Partial<Record<ChatError['code'], string>>> = {
  signed_out: 'the sign-in has ended: run the command again to sign in',
  forbidden: 'this account has no permission for this: ask an administrator',
  too_many:
    'too many connections or messages from this account: close some, and try again in two minutes',
  too_large: 'the message is too large: shorten it',
};

function createCommandError(error: ChatError, url: string): CommandError {
  const message = sanitizeLine(error.message);
  if (error.code === 'unreachable') return createUnreachableError(url, message, error);
  if (error.code === 'no_assistant') return createNotAssistantError(url);
  return new CommandError(ADVICE_BY_CODE[error.code] ?? message, { cause: error });
}

const MAX_INPUT_BYTES = 256 * 1024;

/**
 * Reads the message of a command from its arguments or from standard input. Stops reading after 256 KiB, which no
 * message may have.
 * @returns The message; undefined if there are no arguments and standard input is a terminal.
 */
export async function readMessage(
  words: readonly string[],
  stdin: Io['stdin'],
): Promise<string | undefined> {
  if (words.length > 0) return words.join(' ').trim();
  if (stdin.isTTY === true) return undefined;
  const chunks: Buffer[] = [];
  let byteCount = 0;
  for await (const chunk of stdin) {
    chunks.push(Buffer.from(chunk));
    byteCount += chunk.length;
    if (byteCount > MAX_INPUT_BYTES) break;
  }
  return Buffer.concat(chunks).toString().trim();
}
