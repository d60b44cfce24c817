import type { Logger } from '@oselya/kit';
import { ModelError } from './errors.ts';

/** Begins every probe, so that the model server's log shows its purpose. */
export const PROBE_PREFIX = 'A probe of the model server at start.';

/** A request at start that checks one capability of the configured models. */
export type Probe = {
  /** The capability, as a plural: `embeddings`. */
  name: string;
  /** @throws ModelError when the models lack it. */
  run: (signal: AbortSignal) => Promise<unknown>;
  /** The setting to change when the models lack it. */
  advice: string;
};

/**
 * Runs probes one after another in the background, and logs one line for each. The start does not wait for them: the
 * server may be slow or unavailable.
 * @returns `close` aborts the probe in progress.
 */
export function startProbes(
  probes: readonly Probe[],
  log: Pick<Logger, 'info' | 'warn'>,
): { close: () => Promise<void> } {
  const stopping = new AbortController();
  const running = runAll(probes, { log, signal: stopping.signal });
  return {
    close() {
      stopping.abort();
      return running;
    },
  };
}

async function runAll(
  probes: readonly Probe[],
  { log, signal }: { log: Pick<Logger, 'info' | 'warn'>; signal: AbortSignal },
): Promise<void> {
  for (const { name, run, advice } of probes) {
    try {
      await run(signal);
      log.info(`Probed the model server: ${name} work.`);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ModelError)) {
        log.warn({ err: error }, `The probe of ${name} failed.`);
      } else if (error.retryable) {
        log.warn(`The model server could not be probed for ${name}: ${error.message}`);
      } else {
        log.warn(`Probed the model server: ${name} do not work. ${error.message} ${advice}`);
      }
    }
  }
}
