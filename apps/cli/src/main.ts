import { statSync } from 'node:fs';
import { run } from './run.ts';

/**
 * Runs the `oselya` command in this process. A `.env` file in the working directory is read first; what
 * the environment sets already is kept.
 * @returns The exit status. Contract 1.
 */
export async function main(args: string[]): Promise<number> {
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
  // Where nobody reads what went wrong, as after `2>&1 | head`, the exit status tells it.
  process.stderr.on('error', () => undefined);
  const { env, stdin, stdout, stderr } = process;
  try {
    loadEnvironment('.env');
  } catch (error) {
    stderr.write(
      `oselya: .env cannot be read (${String(error)}): let this user read it, or move it away\n`,
    );
    // Of an inventory, 1 says that it is invalid. Contract 5.
    return args[0] === 'inventory' ? 2 : 1;
  }
  return run(args, { env, stdin, stdout, stderr });
}

/** A folder of that name is none of ours: Python keeps its own there. A pipe is, as password managers make them. */
function loadEnvironment(path: string): void {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found !== undefined && !found.isDirectory()) process.loadEnvFile(path);
}
