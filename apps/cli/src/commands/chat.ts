import type { Command } from 'commander';
import type { Context } from '../command.ts';
import { formatHelp } from '../command.ts';
import type { ChatOptions } from '../chat/chat.ts';

const COMMANDS = `
Without a message on a terminal it starts a conversation; /help lists its commands.
With a message, or one on standard input, it prints the answer; steps go to standard error.
Exit status: 0 answered, 1 no complete answer, 2 wrong use, 130 cancelled by Ctrl-C.
`;

/** Adds `oselya chat`, which talks to a running assistant over its WebSocket. @see docs/chat.md */
export function addChatCommand(program: Command, context: Context): void {
  const command: Command = program
    .command('chat')
    .description('talk to the assistant, which searches and remembers')
    .addHelpText('after', COMMANDS)
    .addHelpText(
      'after',
      formatHelp(
        'a running assistant: BASE_URL or ASSISTANT_PORT, or --url.',
        'You sign in with your browser; docs/chat.md says where the sign-in is stored.',
      ),
    )
    .argument('[words...]', 'the message')
    .option('--url <origin>', 'address of the assistant, instead of BASE_URL')
    .option('--session <id>', 'continue a session')
    .option('--profile <id>', 'start the session with this profile')
    .option('--json', 'print one JSON event a line')
    .option('--no-browser', 'print the sign-in address and open no browser')
    .option('--sign-out', 'sign this terminal out');
  command.action(
    async (
      words: string[],
      options: {
        url?: string;
        session?: string;
        profile?: string;
        json?: boolean;
        browser: boolean;
        signOut?: boolean;
      },
    ): Promise<void> => {
      const { resolveAssistantUrl, chatConfig, parseOrigin } = await import('../config.ts');
      const { loadConfig } = await import('@oselya/kit');
      const { MAX_MESSAGE_LENGTH } = await import('@oselya/chat-client');
      if (options.session !== undefined && options.profile !== undefined) {
        command.error('--session already has a profile: leave out --profile');
      }
      if (options.signOut === true && words.length > 0) {
        command.error('--sign-out takes no message');
      }
      const url =
        options.url === undefined
          ? resolveAssistantUrl(loadConfig(chatConfig, context.env))
          : parseOrigin(options.url);
      if (url === undefined) {
        command.error('--url must be an origin, such as https://oselya.example');
      }
      const { chat, readMessage, signOut } = await import('../chat/chat.ts');
      if (options.signOut === true) return signOut(url, context);
      const text = await readMessage(words, context.stdin);
      if (text === undefined && options.json === true) command.error('--json needs a message');
      if (text === '') command.error('the message is empty');
      if (text !== undefined && text.length > MAX_MESSAGE_LENGTH) {
        command.error(`the message is longer than ${MAX_MESSAGE_LENGTH} characters`);
      }
      const chosen: ChatOptions = {
        url,
        text,
        sessionId: options.session,
        profileId: options.profile,
        json: options.json ?? false,
        opensBrowser: options.browser,
      };
      await chat(chosen, context);
    },
  );
}
