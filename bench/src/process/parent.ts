import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import type { MethodResult, Methods, MethodCall } from './child.ts';

/** Child process that serves method calls and stops at the end of the scope. */
export type RemoteProcess<Asked extends Methods> = AsyncDisposable & {
  /** @throws Error of the method, or if the process has ended. */
  call<Name extends keyof Asked & string>(
    method: Name,
    ...input: Parameters<Asked[Name]>
  ): Promise<Awaited<ReturnType<Asked[Name]>>>;
};

/** Time limit for a process to end before it is killed. */
const STOP_MS = 5000;

/**
 * Starts a module in a separate process, as in production, so that the measured server shares no event
 * loop, heap or garbage collection with what measures it.
 * @param module A module that calls `serveMethods` with the methods of `Asked`.
 * @param signal Kills the process, and so fails what it was asked.
 */
export function startProcess<Asked extends Methods>(
  module: URL,
  signal: AbortSignal,
): RemoteProcess<Asked> {
  const child = fork(module, {
    signal,
    killSignal: 'SIGKILL',
    env: { ...process.env, NODE_ENV: 'production' },
    // Standard output is for the report.
    stdio: ['ignore', 2, 2, 'ipc'],
  });
  const waiting = new Map<number, PromiseWithResolvers<unknown>>();
  let asked = 0;
  let ended: Error | undefined;

  child.on('message', (answer: MethodResult) => {
    const question = waiting.get(answer.id);
    waiting.delete(answer.id);
    if ('error' in answer) question?.reject(new Error(answer.error));
    else question?.resolve(answer.output);
  });
  const fail = (error: Error) => {
    ended ??= error;
    for (const { reject } of waiting.values()) reject(ended);
    waiting.clear();
  };
  child.on('error', fail);
  child.on('exit', (code, by) => fail(new Error(`${module.pathname} ended (${by ?? code})`)));

  return {
    call(method, ...[input]) {
      const question = Promise.withResolvers<unknown>();
      if (ended === undefined) {
        const id = (asked += 1);
        waiting.set(id, question);
        child.send({ id, method, input } satisfies MethodCall);
      } else {
        question.reject(ended);
      }
      // The types of both sides guarantee that the method of this name returns this value.
      return question.promise as Promise<Awaited<ReturnType<Asked[typeof method]>>>;
    },
    [Symbol.asyncDispose]: () => stop(child),
  };
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
  const end = once(child, 'exit');
  if (child.connected) child.disconnect();
  await end;
  clearTimeout(timer);
}
