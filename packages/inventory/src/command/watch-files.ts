import { once } from 'node:events';
import { watch } from 'chokidar';
import type { InventoryIo } from '../io.ts';
import { UsageError } from './usage-error.ts';

/**
 * Calls `check` at once, and again after each change of the files, one call after another, until the signal
 * of `io` is given or the process ends.
 * @returns What the last call gave.
 * @throws UsageError when standard input is among the files, or the system cannot watch them.
 */
export async function watchFiles(
  files: readonly string[],
  { signal }: Pick<InventoryIo, 'signal'>,
  check: () => Promise<number>,
): Promise<number> {
  if (files.includes('-')) throw new UsageError('standard input cannot be watched; name files');
  const watcher = watch([...files], { ignoreInitial: true, atomic: true });
  let changed = Promise.withResolvers<void>();
  watcher.on('all', () => changed.resolve());
  const failed = new Promise<never>((_, fail) => {
    watcher.on('error', (error) => fail(cannotWatch(error)));
  });
  const aborted = new AbortController();
  const stop = () => {
    aborted.abort();
    changed.resolve();
  };
  if (signal?.aborted) stop();
  signal?.addEventListener('abort', stop, { once: true });
  try {
    // What is written before the system has begun to watch would be missed, so the first check comes after.
    await Promise.race([once(watcher, 'ready', { signal: aborted.signal }), failed]).catch(
      (error: unknown) => {
        if (!aborted.signal.aborted) throw error;
      },
    );
    for (;;) {
      // What changes during the check is looked at after it.
      changed = Promise.withResolvers();
      const status = await check();
      if (signal?.aborted) return status;
      await Promise.race([changed.promise, failed]);
      if (signal?.aborted) return status;
    }
  } finally {
    signal?.removeEventListener('abort', stop);
    await watcher.close();
  }
}

function cannotWatch(error: unknown): UsageError {
  const why = error instanceof Error ? error.message : String(error);
  return new UsageError(`the files cannot be watched: ${why}; check again by hand`, {
    cause: error,
  });
}
