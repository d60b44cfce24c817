import type { Logger } from '@oselya/kit';
import { ModelError } from './errors.ts';

/** Prefix of probes, which shows their purpose in the log of the model server. */
export const PROBE_PREFIX = 'A probe of the model server at start.';

/** Startup request that checks a capability of the configured models. */
export type Probe = {
  /** Capability in the plural, such as `embeddings`. */
  name: string;
  /** Sends the request. Throws a ModelError if the models lack the capability. */
  run: (signal: AbortSignal) => Promise<unknown>;
  advice: string;
};

/**
 * Starts probes in the background, one after another, and logs one line for each. Startup does not wait for them,
 * because the server may be slow or unavailable.
 * @returns An object whose `close` aborts the probe in progress, skips the others, and waits for the end.
 */
export function startProbes(
  probes: readonly Probe[],
  log: Pick<Logger, 'info' | 'warn'>,
): { close: () => Promise<void> } {
  const stopController = new AbortController();
  const probeRun = runProbes(probes, log, stopController.signal);
  return {
    close() {
      stopController.abort();
      return probeRun;
    },
  };
}

async function runProbes(
  probes: readonly Probe[],
  log: Pick<Logger, 'info' | 'warn'>,
  signal: AbortSignal,
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
