/** As shells tell of a command that Ctrl-C ended. */
export const INTERRUPTED = 130;

/**
 * A signal that the first Ctrl-C aborts, so that a command ends in an orderly way; a second one ends the
 * process at once.
 */
export function onInterrupt(): AbortSignal {
  const controller = new AbortController();
  const stop = () => {
    if (controller.signal.aborted) process.exit(INTERRUPTED);
    controller.abort();
  };
  process.on('SIGINT', stop);
  process.on('SIGTERM', stop);
  return controller.signal;
}
