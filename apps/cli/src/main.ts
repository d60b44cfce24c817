import { statSync } from 'node:fs';
import { CommanderError } from 'commander';
import { CommandError, type Io } from './command.ts';
import { createProgram } from './program.ts';

/**
 * Runs the `oselya` command in this process. A `.env` file in the working directory adds variables that the
 * environment does not set.
 * @returns The exit status. Contract 1.
 */
export async function main(args: string[]): Promise<number> {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    // A reader such as `head` may close the pipe early. The command still finishes.
    if (error.code === 'EPIPE') return;
    process.once('exit', () => {
      if (process.exitCode) return;
      process.stderr.write(`oselya: cannot write to standard output: ${error.message}\n`);
      process.exitCode = 1;
    });
  });
  process.stderr.on('error', () => undefined);
  const { env, stdin, stdout, stderr } = process;
  try {
    // A Python environment may be a folder named `.env`. Named pipes are allowed.
    if (statSync('.env', { throwIfNoEntry: false })?.isDirectory() === false) {
      process.loadEnvFile('.env');
    }
  } catch (error) {
    stderr.write(
      `oselya: .env cannot be read (${String(error)}): let this user read it, or move it away\n`,
    );
    // For `inventory`, 1 means an invalid inventory. Contract 5.
    return args[0] === 'inventory' ? 2 : 1;
  }
  return run(args, { env, stdin, stdout, stderr });
}

/**
 * Runs the `oselya` command with the given arguments and streams.
 * @returns The exit status: 0 done, 1 failed, 2 wrong use, 130 interrupted. Contract 1.
 */
export async function run(args: string[], io: Io): Promise<number> {
  let status = 0;
  const program = createProgram({
    ...io,
    print: (line) => void io.stdout.write(`${line}\n`),
    exitWith: (code) => {
      status = code;
    },
  });
  try {
    await program.parseAsync(args, { from: 'user' });
    return status;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if (!(error instanceof Error) || !(await isReadable(error))) throw error;
    io.stderr.write(`oselya: ${error.message}\n`);
    return 1;
  }
}

/** Tells whether an error has a message for users. */
async function isReadable(thrown: Error): Promise<boolean> {
  if (thrown instanceof CommandError) return true;
  const [{ DatabaseError }, { StartError }] = await Promise.all([
    import('@oselya/db'),
    import('@oselya/kit'),
  ]);
  return thrown instanceof StartError || thrown instanceof DatabaseError;
}
