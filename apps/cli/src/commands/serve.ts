import type { Command } from 'commander';
import { addCommand, type Context, generateKey, openDatabase } from '../command.ts';

const SERVICES = [
  {
    role: 'assistant',
    description: 'serve the assistant: sign-in, conversations, memory, saved searches',
    needs:
      'SVC_AUTH_ENCRYPTION_KEY, and IDP_BASE_URL, IDP_CLIENT_ID and IDP_CLIENT_SECRET for sign-in.',
    note: 'docs/sign-in.md explains the identity provider. Without MODEL_MODE=openai a mock model answers.',
  },
  {
    role: 'collector',
    description: 'serve the collector API, and run a worker unless COLLECTOR_WORKER=false',
    needs: 'nothing on a loopback address, and COLLECTOR_AUTH on any other.',
    note: 'MODEL_MODE=openai and the other MODEL_* variables select a real model.',
  },
  {
    role: 'worker',
    description: 'process the queue of the collector without serving its API',
    needs: 'the DATABASE_URL and the image store of the collector.',
    note: 'COLLECTOR_WORKERS is the number of jobs that it runs at once.',
  },
] as const;

type Role = (typeof SERVICES)[number]['role'];

/** Adds `oselya dev`, `oselya assistant`, `oselya collector` and `oselya worker`. Contract 1. */
export function addServeCommands(program: Command, { env, print }: Context): void {
  addCommand(program, 'dev', {
    description: 'run everything in one process with development sign-in and sample listings',
    needs: 'nothing: secrets and data are created in DATA_DIR (var).',
    note: 'It is for trying things out: a real identity provider needs oselya assistant.',
  }).action(async () => {
    // Print before the imports, which take a second or more.
    print('Oselya is starting; the first start takes up to a minute. Ctrl-C stops it.');
    const { dev } = await import('../dev/dev.ts');
    await dev({ env, print });
  });
  // Users may try `oselya start`, because `npm start` runs `oselya dev`.
  program
    .command('start', { hidden: true })
    .helpOption(false)
    .allowUnknownOption()
    .allowExcessArguments()
    .action(() => program.error("unknown command 'start' (Did you mean dev?)"));
  for (const { role, ...help } of SERVICES) {
    addCommand(program, role, help).action(() => serve(role, env));
  }
}

async function serve(role: Role, env: NodeJS.ProcessEnv): Promise<void> {
  const { createLogger, onShutdown } = await import('@oselya/kit');
  const { level, start } = await loadService(role, env);
  const log = createLogger({ level, service: role });
  const startup = start(env);
  // Register before startup completes, because an early signal must also close everything.
  await Promise.all([startup, onShutdown(log, async () => (await startup).close())]);
}

async function loadService(role: Role, env: NodeJS.ProcessEnv) {
  if (role === 'assistant') {
    const { readConfig, start } = await import('@oselya/assistant');
    return { level: readConfig(env).LOG_LEVEL, start };
  }
  const { readConfig, start, startWorker } = await import('@oselya/collector');
  const hasApi = role === 'collector';
  return {
    level: readConfig(env, { servesApi: hasApi }).LOG_LEVEL,
    start: hasApi ? start : startWorker,
  };
}

/** Adds `oselya migrate` and `oselya keygen`. Contract 1. */
export function addSetUpCommands(program: Command, context: Context): void {
  const { env, print } = context;
  addCommand(program, 'migrate', {
    description: 'bring the database up to date and stop',
    needs: 'a database: DATABASE_URL, else the embedded one in DATA_DIR.',
    note: 'Services migrate when they start; with several, run this before them.',
  }).action(async () => {
    const assistant = await import('@oselya/assistant');
    const collector = await import('@oselya/collector');
    const { loadConfig } = await import('@oselya/kit');
    // Validates with the collector's schema, so that one error names all invalid values.
    const config = loadConfig(collector.configSchema, env);
    await using database = await openDatabase<never>(config, context);
    for (const { migrateDatabase } of [assistant, collector]) {
      const { component, applied } = await migrateDatabase(env, database);
      const migrationStatus = applied.length === 0 ? 'up to date' : `applied ${applied.join(', ')}`;
      print(`${component}: ${migrationStatus}`);
    }
  });
  addCommand(program, 'keygen', {
    description: 'print a new encryption key for SVC_AUTH_ENCRYPTION_KEY',
    needs: 'nothing, and keeps nothing.',
    note: 'All processes on one database share one key; docs/sign-in.md explains how to replace it.',
  }).action(() => print(generateKey()));
}
