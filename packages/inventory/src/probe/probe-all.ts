import PQueue from 'p-queue';
import type { EndpointRecord } from '../record.ts';
import { type Observation, type ProbeOptions, probeRecord } from './probe.ts';

export type ProbeAllOptions = {
  /** How many endpoints are looked at at once. */
  concurrency?: number;
  /** How many are begun within a second. */
  perSecond?: number;
} & ProbeOptions;

/**
 * Looks at the endpoints of records, few at once and few a second, so that neither a network nor a server
 * takes it for an attack. The observations come in the order of the records.
 */
export function probeAll(
  records: readonly EndpointRecord[],
  { concurrency = 4, perSecond = 5, ...options }: ProbeAllOptions = {},
): Promise<Observation[]> {
  const queue = new PQueue({
    concurrency,
    interval: 1000 / perSecond,
    intervalCap: 1,
  });
  const { signal } = options;
  return queue.addAll(
    records.map((record) => () => probeRecord(record, options)),
    { ...(signal && { signal }) },
  );
}
