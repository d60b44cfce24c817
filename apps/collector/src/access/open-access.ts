import { isLoopback, type Logger } from '@oselya/kit';
import type { Config } from '../config.ts';

/**
 * Says in the log that API keys are off: a warning where others than this machine can reach the
 * collector.
 */
export function announceOpenAccess(
  log: Logger,
  { COLLECTOR_AUTH, COLLECTOR_HOST }: Pick<Config, 'COLLECTOR_AUTH' | 'COLLECTOR_HOST'>,
): void {
  if (COLLECTOR_AUTH === 'required') return;
  if (isLoopback(COLLECTOR_HOST)) {
    log.info('API keys are off: whoever uses this machine may use the collector');
  } else {
    log.warn('API keys are off: whoever reaches this address may use the collector');
  }
}
