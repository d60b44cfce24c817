import { watch } from 'chokidar';
import type { InventoryIo } from '../io.ts';
import { UsageError } from './usage-error.ts';

/**
 * Calls `check` at once, and again after each change of the files, one call after another, until the signal
 * of `io` is given or the process ends.
 * @returns What the last call gave.
 * @throws UsageError when standard input is among the files.
 */
export async function watchFiles(
  files: readonly string[],
  io: InventoryIo,
  check: () => Promise<number>,
): Promise<number> {
  if (files.includes('-')) throw new UsageError('standard input cannot be watched; name files');
  const { signal } = io;
  let changed = Promise.withResolvers<void>();
  const watcher = watch([...files], { ignoreInitial: true, atomic: true });
  watcher.on('all', () => changed.resolve());
  signal?.addEventListener('abort', () => changed.resolve(), { once: true });
  try {
    for (;;) {
      // What changes during the check is looked at after it.
      changed = Promise.withResolvers();
      const status = await check();
      await changed.promise;
      if (signal?.aborted) return status;
    }
  } finally {
    await watcher.close();
  }
}
