import { existsSync } from 'node:fs';
import { run } from './run.ts';

/**
 * Runs the `oselya` command in this process. A `.env` file in the working directory is read first; what
 * the environment sets already is kept.
 * @returns The exit status. Contract 1.
 */
export async function main(args: string[]): Promise<number> {
  if (existsSync('.env')) process.loadEnvFile('.env');
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    // Whoever reads the output may stop early, as `head` does; the command ends its work all the same.
    if (error.code === 'EPIPE') return;
    // A command that noticed has told it, and gives a status of its own.
    process.once('exit', () => {
      if (process.exitCode) return;
      process.stderr.write(`oselya: cannot write to standard output: ${error.message}\n`);
      process.exitCode = 1;
    });
  });
  const { env, stdin, stdout, stderr } = process;
  return run(args, { env, stdin, stdout, stderr });
}
