import { existsSync } from 'node:fs';
import { run } from './run.ts';

/**
 * Runs the `oselya` command in this process. A `.env` file in the working directory is read first; what
 * the environment sets already is kept.
 * @returns The exit status. Contract 1.
 */
export async function main(args: string[]): Promise<number> {
  if (existsSync('.env')) process.loadEnvFile('.env');
  // Whoever reads the output may stop early, as `head` does; the command ends its work all the same.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
  const { env, stdin, stdout, stderr } = process;
  return run(args, { env, stdin, stdout, stderr });
}
