import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { run } from '../../src/main.ts';

/**
 * Runs the command in this process.
 * @param env All that it finds in its environment.
 * @param input What is on its standard input, which is no terminal.
 * @returns Its exit status, and what it wrote.
 */
export async function oselya(args: string[], env: Record<string, string> = {}, input = '') {
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
  stdin.end(input);
  const written = Promise.all([text(stdout), text(stderr)]);
  const status = await run(args, { env, stdin, stdout, stderr });
  stdout.end();
  stderr.end();
  const [out, errors] = await written;
  return { status, stdout: out, stderr: errors };
}
