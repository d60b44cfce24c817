import { CommanderError } from 'commander';
import { CommandError } from './command-error.ts';
import type { Io } from './context.ts';
import { createProgram } from './program.ts';

/**
 * Runs the `oselya` command with the arguments after that name.
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
    if (!(error instanceof Error) || !(await isForThePerson(error))) throw error;
    io.stderr.write(`oselya: ${error.message}\n`);
    return 1;
  }
}

/** Whether an error says by itself what is wrong and what to do. */
async function isForThePerson(thrown: unknown): Promise<boolean> {
  if (thrown instanceof CommandError) return true;
  // Loaded here, since most commands end without an error, and some need neither.
  const [{ DatabaseError }, { StartError }] = await Promise.all([
    import('@oselya/db'),
    import('@oselya/kit'),
  ]);
  return thrown instanceof StartError || thrown instanceof DatabaseError;
}
