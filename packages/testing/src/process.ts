import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { atEnd } from './flow.ts';

/** How a process ended, and its output. */
export type Ended = {
  /** Exit status; null where a signal ended it. */
  status: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
};

/** A process of a test. */
export type RunningProcess = {
  child: ChildProcess;
  /** All that it has written until now. */
  output: { stdout: string; stderr: string };
  ended: Promise<Ended>;
  /** The first message that it sends to its parent; rejects where it ends before. */
  message: () => Promise<unknown>;
  /** Ends it as the kernel does without memory, and waits until it is gone. */
  kill: (signal?: NodeJS.Signals) => Promise<void>;
};

/**
 * Starts a TypeScript file as a process of its own; it ends with the file's tests.
 * @param args The file, and its arguments.
 * @param env Its whole environment, beside `PATH` and Node's compile cache.
 */
export function startProcess(
  args: readonly string[],
  { env = {}, cwd }: { env?: Readonly<Record<string, string>>; cwd?: string } = {},
): RunningProcess {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  const child = spawn(process.execPath, [...args], {
    cwd,
    env: { PATH, NODE_COMPILE_CACHE, ...env },
    stdio: ['pipe', 'pipe', 'pipe', 'ipc'],
  });
  const output = { stdout: '', stderr: '' };
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (output.stdout += text));
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (output.stderr += text));
  const ended = once(child, 'close').then(([status, signal]): Ended => {
    return { status, signal, ...output };
  });
  const kill = async (signal: NodeJS.Signals = 'SIGKILL'): Promise<void> => {
    child.kill(signal);
    await ended;
  };
  atEnd(() => kill());
  const failure = async (): Promise<never> => {
    const { status, stdout, stderr } = await ended;
    throw new Error(`The process ended with ${status}: ${stdout}${stderr}`);
  };
  const message = async (): Promise<unknown> => {
    const [first] = await Promise.race([once(child, 'message'), failure()]);
    return first;
  };
  return { child, output, ended, message, kill };
}

/**
 * Runs a TypeScript file as a process of its own until it ends.
 * @param input Its standard input.
 */
export function runProcess(
  args: readonly string[],
  { input = '', ...options }: Parameters<typeof startProcess>[1] & { input?: string } = {},
): Promise<Ended> {
  const { child, ended } = startProcess(args, options);
  child.stdin?.on('error', () => undefined).end(input);
  return ended;
}
