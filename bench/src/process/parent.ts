import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import type { MethodResult, Methods, MethodCall } from './child.ts';

/** Child process that serves method calls and stops at the end of the scope. */
export type RemoteProcess<ChildMethods extends Methods> = AsyncDisposable & {
  /** ID of the process; 0 if it could not be started. */
  pid: number;
  /**
   * Calls a method of the child process.
   * @throws Error with the stack of the method's error, or if the process did not start or has ended.
   */
  call<Name extends keyof ChildMethods & string>(
    method: Name,
    ...input: Parameters<ChildMethods[Name]>
  ): Promise<Awaited<ReturnType<ChildMethods[Name]>>>;
};

/** Time limit for a process to end before it is killed. */
const STOP_MS = 5000;

/**
 * Starts a module in a separate process with NODE_ENV=production. A measured server thus shares no event
 * loop, heap or garbage collection with the benchmark.
 * @param module URL of a module that passes the methods of `ChildMethods` to `serveMethods`.
 * @param signal Kills the process when it aborts, which rejects the pending calls.
 */
export function startProcess<ChildMethods extends Methods>(
  module: URL,
  signal: AbortSignal,
): RemoteProcess<ChildMethods> {
  const child = fork(module, {
    signal,
    killSignal: 'SIGKILL',
    env: { ...process.env, NODE_ENV: 'production' },
    // The child writes to standard error, because standard output is reserved for the report.
    stdio: ['ignore', 2, 2, 'ipc'],
  });
  const pendingCalls = new Map<number, PromiseWithResolvers<unknown>>();
  let lastId = 0;
  let exitError: Error | undefined;

  child.on('message', (result: MethodResult) => {
    const pendingCall = pendingCalls.get(result.id);
    pendingCalls.delete(result.id);
    if ('error' in result) pendingCall?.reject(new Error(result.error));
    else pendingCall?.resolve(result.output);
  });
  const fail = (error: Error) => {
    exitError ??= error;
    for (const { reject } of pendingCalls.values()) reject(exitError);
    pendingCalls.clear();
  };
  child.on('error', fail);
  child.on('exit', (code, signalName) =>
    fail(new Error(`${module.pathname} ended (${signalName ?? code})`)),
  );

  return {
    pid: child.pid ?? 0,
    call(method, ...[input]) {
      const pendingCall = Promise.withResolvers<unknown>();
      if (exitError === undefined) {
        const id = (lastId += 1);
        pendingCalls.set(id, pendingCall);
        child.send({ id, method, input } satisfies MethodCall);
      } else {
        pendingCall.reject(exitError);
      }
      // `ChildMethods` describes the methods of the child, so the result has this type.
      return pendingCall.promise as Promise<Awaited<ReturnType<ChildMethods[typeof method]>>>;
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
