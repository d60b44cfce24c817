import { existsSync } from 'node:fs';
import { DatabaseError } from '@oselya/db';
import { StartError } from '@oselya/kit';
import { CommanderError } from 'commander';
import { CommandError } from './command-error.ts';
import { createProgram } from './program.ts';

/**
 * Runs the `oselya` command. A `.env` file in the working directory is read first; what the
 * environment sets already is kept.
 * @returns The exit status: 0 done, 1 failed, 2 wrong use. Contract 1.
 */
export async function main(args: string[]): Promise<number> {
  if (existsSync('.env')) process.loadEnvFile('.env');
  // Whoever reads the output may stop early, as `head` does; the command ends its work all the same.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
  let status = 0;
  const program = createProgram({
    env: process.env,
    print: (line) => void process.stdout.write(`${line}\n`),
    exitWith: (code) => {
      status = code;
    },
  });
  try {
    await program.parseAsync(args, { from: 'user' });
    return status;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if (
      error instanceof CommandError ||
      error instanceof StartError ||
      error instanceof DatabaseError
    ) {
      process.stderr.write(`oselya: ${error.message}\n`);
      return 1;
    }
    throw error;
  }
}
