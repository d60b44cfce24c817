import type { Command } from 'commander';
import { addCommand, type Context, parseNonEmpty } from '../command.ts';

const USAGE = `
Without a message on a terminal it starts a conversation; /help lists its commands.
With a message, or one on standard input, it prints the answer; steps go to standard error.
Exit status: 0 answered, 1 no complete answer, 2 usage error, 130 cancelled by Ctrl-C.
`;

type ChatCommandOptions = {
  url?: string;
  session?: string;
  profile?: string;
  json?: boolean;
  browser: boolean;
  signOut?: boolean;
};

/** Adds `oselya chat`, which talks to a running assistant over its WebSocket. @see docs/chat.md */
export function addChatCommand(program: Command, context: Context): void {
  addCommand(program, 'chat', {
    description: 'talk to the assistant, which searches and remembers',
    usage: USAGE,
    needs: 'a running assistant: BASE_URL or ASSISTANT_PORT, or --url.',
    note: 'You sign in with your browser; docs/chat.md says where the sign-in is stored.',
  })
    .argument('[words...]', 'the message')
    .option('--url <origin>', 'address of the assistant, instead of BASE_URL')
    .option('--session <id>', 'continue a session', parseNonEmpty)
    .option('--profile <id>', 'start the session with this profile', parseNonEmpty)
    .option('--json', 'print one JSON event a line')
    .option('--no-browser', 'print the sign-in address and open no browser')
    .option('--sign-out', 'sign this terminal out')
    .action((words: string[], options: ChatCommandOptions, command: Command) =>
      runChat(words, options, command, context),
    );
}

async function runChat(
  words: string[],
  options: ChatCommandOptions,
  command: Command,
  context: Context,
): Promise<void> {
  const { resolveAssistantUrl, chatConfig, parseOrigin } = await import('../config.ts');
  const { loadConfig } = await import('@oselya/kit');
  const { MAX_MESSAGE_LENGTH } = await import('@oselya/chat-client');
  const { json = false } = options;
  if (options.session !== undefined && options.profile !== undefined) {
    command.error('--session already has a profile: omit --profile');
  }
  if (options.signOut && words.length > 0) command.error('--sign-out takes no message');
  const url =
    options.url === undefined
      ? resolveAssistantUrl(loadConfig(chatConfig, context.env))
      : parseOrigin(options.url);
  if (url === undefined) command.error('--url must be an origin, such as https://oselya.example');
  const { chat, readMessage, signOut } = await import('../chat/chat.ts');
  if (options.signOut) return signOut(url, context);
  const text = await readMessage(words, context.stdin);
  if (text === undefined && json) command.error('--json needs a message');
  if (text === '') command.error('the message is empty');
  if (text !== undefined && text.length > MAX_MESSAGE_LENGTH) {
    command.error(`the message is longer than ${MAX_MESSAGE_LENGTH} characters`);
  }
  const { session: sessionId, profile: profileId, browser: opensBrowser } = options;
  await chat({ url, text, sessionId, profileId, json, opensBrowser }, context);
}
