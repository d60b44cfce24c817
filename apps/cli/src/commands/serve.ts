import { commonConfig, createLogger, loadConfig, onShutdown } from '@oselya/kit';
import { Type } from 'typebox';

type Role = '@oselya/assistant' | '@oselya/collector' | 'worker';

/** Runs one role, configured by the environment, until the process is told to stop. */
export async function serve(role: Role, env: NodeJS.ProcessEnv): Promise<void> {
  const { LOG_LEVEL: level } = loadConfig(Type.Object(commonConfig), env);
  const log = createLogger({ level, service: role.replace('@oselya/', '') });
  const starting = start(role, env);
  // Listened for from the beginning: a role that is told to stop while it starts closes all the same.
  await Promise.all([starting, onShutdown(log, async () => (await starting).close())]);
}

async function start(role: Role, env: NodeJS.ProcessEnv): Promise<{ close: () => Promise<void> }> {
  if (role === 'worker') return (await import('@oselya/collector')).startWorker(env);
  return (await import(role)).start(env);
}
