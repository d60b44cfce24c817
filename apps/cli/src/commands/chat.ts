import type { Command } from 'commander';
import type { Context } from '../command.ts';
import { help } from '../command.ts';
import type { ChatOptions } from '../chat/chat.ts';

const COMMANDS = `
Without a message on a terminal it is a conversation: /help there shows its commands.
With one, or with one on standard input, it prints the answer alone: the steps are on standard error.
Exit status: 0 answered, 1 no whole answer, 2 wrong use, 130 cancelled by Ctrl-C.
`;

/** `oselya chat`: talks to a running assistant over its WebSocket, as a browser does. docs/chat.md. */
export function addChatCommand(program: Command, context: Context): void {
  const command: Command = program
    .command('chat')
    .description('talk to the assistant, which searches and remembers')
    .addHelpText('after', COMMANDS)
    .addHelpText(
      'after',
      help(
        'an assistant that runs: BASE_URL or ASSISTANT_PORT, or --url.',
        'You sign in with your browser; docs/chat.md says where that is kept.',
      ),
    )
    .argument('[words...]', 'the message')
    .option('--url <origin>', 'where the assistant is, in the place of BASE_URL')
    .option('--session <id>', 'go on with a session')
    .option('--profile <id>', 'begin the session with this profile')
    .option('--json', 'print what happens as JSON, one event a line')
    .option('--no-browser', 'print the address to sign in at, and open no browser')
    .option('--sign-out', 'end the sign-in of this terminal');
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
      const { assistantOf, chatConfig, originOf } = await import('../config.ts');
      const { loadConfig, MAX_TEXT_LENGTH } = await import('@oselya/kit');
      if (options.session !== undefined && options.profile !== undefined) {
        command.error('--session has its profile already: leave --profile out');
      }
      if (options.signOut === true && words.length > 0) {
        command.error('--sign-out takes no message');
      }
      const url =
        options.url === undefined
          ? assistantOf(loadConfig(chatConfig, context.env))
          : originOf(options.url);
      if (url === undefined) {
        command.error('--url must be an origin, such as https://oselya.example');
      }
      const { chat, signOut } = await import('../chat/chat.ts');
      if (options.signOut === true) return signOut(url, context);
      const { readMessage } = await import('../chat/read-message.ts');
      const text = await readMessage(words, context.stdin);
      if (text === undefined && options.json === true) command.error('--json needs a message');
      if (text === '') command.error('the message is empty');
      if (text !== undefined && text.length > MAX_TEXT_LENGTH) {
        command.error(`the message is longer than ${MAX_TEXT_LENGTH} characters`);
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
