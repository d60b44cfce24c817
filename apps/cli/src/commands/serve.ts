import type { Command } from 'commander';
import type { Context } from '../context.ts';
import { help } from '../help.ts';

type Role = 'assistant' | 'collector' | 'worker';

/** `oselya assistant`, `oselya collector` and `oselya worker`. Contract 1. */
export function addServeCommands(program: Command, { env }: Context): void {
  program
    .command('assistant')
    .description('serve the assistant: sign-in, conversations, memory, saved searches')
    .addHelpText(
      'after',
      help(
        'SVC_AUTH_ENCRYPTION_KEY, and IDP_BASE_URL, IDP_CLIENT_ID and IDP_CLIENT_SECRET for sign-in.',
        'docs/sign-in.md is about the identity provider. Without MODEL_MODE=openai and the variables beside it a mock answers.',
      ),
    )
    .action(() => serve('assistant', env));
  program
    .command('collector')
    .description('serve the collector API, and run a worker unless COLLECTOR_WORKER=false')
    .addHelpText(
      'after',
      help(
        'nothing on a loopback address, and COLLECTOR_AUTH on any other.',
        'A real model is set with MODEL_MODE=openai and the variables beside it.',
      ),
    )
    .action(() => serve('collector', env));
  program
    .command('worker')
    .description('process the queue of the collector without serving its API')
    .addHelpText(
      'after',
      help(
        'the DATABASE_URL and the image store of the collector.',
        'COLLECTOR_WORKERS is how many jobs it has in progress at once.',
      ),
    )
    .action(() => serve('worker', env));
}

/** Runs one role, configured by the environment, until the process is told to stop. */
async function serve(role: Role, env: NodeJS.ProcessEnv): Promise<void> {
  const { createLogger, onShutdown } = await import('@oselya/kit');
  const { level, start } = await load(role, env);
  const log = createLogger({ level, service: role });
  const starting = start(env);
  // Listened for from the beginning: a role that is told to stop while it starts closes all the same.
  await Promise.all([starting, onShutdown(log, async () => (await starting).close())]);
}

type Loaded = {
  level: string;
  start: (env: NodeJS.ProcessEnv) => Promise<{ close: () => Promise<void> }>;
};

async function load(role: Role, env: NodeJS.ProcessEnv): Promise<Loaded> {
  if (role === 'assistant') {
    const { readConfig, start } = await import('@oselya/assistant');
    return { level: readConfig(env).LOG_LEVEL, start };
  }
  const { readConfig, start, startWorker } = await import('@oselya/collector');
  const api = role === 'collector';
  return { level: readConfig(env, { api }).LOG_LEVEL, start: api ? start : startWorker };
}
