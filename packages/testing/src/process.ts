import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { deferCleanup } from './flow.ts';

/** Exit status and output of a process. */
type ProcessResult = {
  /** Exit status. Null if a signal ended the process. */
  status: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
};

/** Process that a test started. */
type RunningProcess = {
  child: ChildProcess;
  output: { stdout: string; stderr: string };
  ended: Promise<ProcessResult>;
  /** Waits for the first IPC message of the process. Rejects if the process ends first. */
  waitForMessage: () => Promise<unknown>;
  /** Kills the process, by default with SIGKILL, and waits until it ends. */
  kill: (signal?: NodeJS.Signals) => Promise<void>;
};

/**
 * Starts Node in a new process, which is killed after the tests of the file.
 * @param args Arguments of Node, usually a TypeScript file and its arguments.
 * @param options.env Environment variables, in addition to `PATH` and `NODE_COMPILE_CACHE`.
 */
export function startProcess(
  args: readonly string[],
  { env = {}, cwd }: { env?: Readonly<Record<string, string>>; cwd?: string } = {},
): RunningProcess {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  // The embedded database starts in half the processor time without the optimizing compiler.
  const child = spawn(process.execPath, ['--liftoff-only', ...args], {
    cwd,
    env: { PATH, NODE_COMPILE_CACHE, ...env },
    stdio: ['pipe', 'pipe', 'pipe', 'ipc'],
  });
  const output = { stdout: '', stderr: '' };
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (output.stdout += text));
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (output.stderr += text));
  const ended = once(child, 'close').then(([status, signal]): ProcessResult => {
    return { status, signal, ...output };
  });
  const kill = async (signal: NodeJS.Signals = 'SIGKILL'): Promise<void> => {
    child.kill(signal);
    await ended;
  };
  deferCleanup(() => kill());
  const rejectWhenEnded = async (): Promise<never> => {
    const { status, stdout, stderr } = await ended;
    throw new Error(`The process ended with ${status}: ${stdout}${stderr}`);
  };
  const waitForMessage = async (): Promise<unknown> => {
    const [firstMessage] = await Promise.race([once(child, 'message'), rejectWhenEnded()]);
    return firstMessage;
  };
  return { child, output, ended, waitForMessage, kill };
}

/**
 * Runs Node in a new process, like {@link startProcess}, and waits until the process ends.
 * @param options.input Standard input.
 */
export function runProcess(
  args: readonly string[],
  { input = '', ...options }: Parameters<typeof startProcess>[1] & { input?: string } = {},
): Promise<ProcessResult> {
  const { child, ended } = startProcess(args, options);
  child.stdin?.on('error', () => undefined).end(input);
  return ended;
}
