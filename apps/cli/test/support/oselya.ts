import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { run } from '../../src/run.ts';

/**
 * Runs the command in this process, with nothing on its standard input.
 * @param env All that it finds in its environment.
 * @returns Its exit status, and what it wrote.
 */
export async function oselya(args: string[], env: Record<string, string> = {}) {
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
  stdin.end();
  const written = Promise.all([text(stdout), text(stderr)]);
  const status = await run(args, { env, stdin, stdout, stderr });
  stdout.end();
  stderr.end();
  const [out, errors] = await written;
  return { status, stdout: out, stderr: errors };
}
