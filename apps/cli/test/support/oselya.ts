import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { run } from '../../src/main.ts';

/** Path of the command, to run it in a separate process. */
export const BIN = join(import.meta.dirname, '../../bin/oselya.js');

// Each command listens for Ctrl-C until its process ends. This process runs many commands.
process.setMaxListeners(200);

/**
 * Runs the command in this process.
 * @param env Complete environment of the command.
 * @param input Standard input, which is not a terminal. An array contains the chunks.
 * @returns The exit status and the output.
 */
export async function oselya(
  args: readonly string[],
  env: Record<string, string> = {},
  input: string | readonly Uint8Array[] = '',
) {
  const stdin = Readable.from(typeof input === 'string' ? [Buffer.from(input)] : input);
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const outputPromise = Promise.all([text(stdout), text(stderr)]);
  const status = await run([...args], { env, stdin, stdout, stderr });
  stdout.end();
  stderr.end();
  const [out, errors] = await outputPromise;
  return { status, stdout: out, lines: out.split('\n').slice(0, -1), stderr: errors };
}
