import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { open, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Usage } from './usage.ts';

/** Result of one run of a command. */
export type Run = {
  /** Exit status; null if a signal ended the command, as after a timeout or without memory. */
  exitStatus: number | null;
  wallMs: number;
  /** Resource usage; undefined if a signal ended the command. */
  usage: Usage | undefined;
};

type RunOptions = {
  folder: string;
  output: string;
  input?: Iterable<string> | undefined;
  signal: AbortSignal;
};

const USAGE_MODULE = new URL('usage.ts', import.meta.url).href;
/** Time limit for a command, because slow peers would run for hours. */
const TIMEOUT_MS = 5 * 60_000;

/**
 * Runs a Node command in a separate process and writes its output to a file.
 * @param args The module and its arguments.
 * @returns Exit status, duration and resource usage.
 */
export async function runCommand(
  args: readonly string[],
  { folder, output, input, signal }: RunOptions,
): Promise<Run> {
  const usageFile = join(folder, 'usage.json');
  await rm(usageFile, { force: true });
  await using outputFile = await open(output, 'w');
  const startedAt = performance.now();
  const child = spawn(process.execPath, ['--import', USAGE_MODULE, ...args], {
    env: { ...process.env, OSELYA_BENCH_USAGE: usageFile, NODE_ENV: 'production' },
    stdio: [input === undefined ? 'ignore' : 'pipe', outputFile.fd, outputFile.fd],
    signal,
    timeout: TIMEOUT_MS,
    killSignal: 'SIGKILL',
  });
  const exit = once(child, 'exit');
  if (input !== undefined && child.stdin !== null) {
    // A command may exit before it reads all input. Its exit status then reports the error.
    await pipeline(Readable.from(input), child.stdin).catch(() => undefined);
  }
  const [exitStatus] = await exit;
  const wallMs = performance.now() - startedAt;
  const usage = await readFile(usageFile, 'utf8').catch(() => undefined);
  return { exitStatus, wallMs, usage: usage === undefined ? undefined : JSON.parse(usage) };
}
