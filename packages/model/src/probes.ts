import type { Logger } from '@oselya/kit';
import { ModelError } from './errors.ts';

/** A part of every probe, so that the log of a model server tells what it was. */
export const PROBE = 'A probe of the model server at start.';

/** A question by which a start finds out whether the configured models fit. */
export type Probe = {
  /** The capability, as a plural: `embeddings`. */
  name: string;
  /** @throws ModelError where the models do not have it. */
  ask: (signal: AbortSignal) => Promise<unknown>;
  /** What to change where they do not have it. */
  advice: string;
};

/**
 * Asks the model server in the background, one probe after another, and logs one line for each. Nothing waits for it:
 * a server that is slow or away delays no start.
 * @returns What gives up the probe in progress.
 */
export function startProbes(
  probes: readonly Probe[],
  log: Pick<Logger, 'info' | 'warn'>,
): { close: () => Promise<void> } {
  const stopping = new AbortController();
  const asking = askAll(probes, { log, signal: stopping.signal });
  return {
    close() {
      stopping.abort();
      return asking;
    },
  };
}

async function askAll(
  probes: readonly Probe[],
  { log, signal }: { log: Pick<Logger, 'info' | 'warn'>; signal: AbortSignal },
): Promise<void> {
  for (const { name, ask, advice } of probes) {
    try {
      await ask(signal);
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
