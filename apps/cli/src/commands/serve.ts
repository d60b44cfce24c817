import { createLogger, onShutdown } from '@oselya/kit';

export type Role = 'assistant' | 'collector' | 'worker';

/** Runs one role, configured by the environment, until the process is told to stop. */
export async function serve(role: Role, env: NodeJS.ProcessEnv): Promise<void> {
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
