import { createLogger, onShutdown } from '@oselya/kit';

type Role = '@oselya/assistant' | '@oselya/collector' | 'worker';

/** Runs one role, configured by the environment, until the process is told to stop. */
export async function serve(role: Role, env: NodeJS.ProcessEnv): Promise<void> {
  const running = await start(role, env);
  const service = role.replace('@oselya/', '');
  await onShutdown(createLogger({ level: env['LOG_LEVEL'] ?? 'info', service }), running.close);
}

async function start(role: Role, env: NodeJS.ProcessEnv): Promise<{ close: () => Promise<void> }> {
  if (role === 'worker') return (await import('@oselya/collector')).startWorker(env);
  return (await import(role)).start(env);
}
