import { setTimeout as sleep } from 'node:timers/promises';
import { createTellOnce } from '../ingest/tell-once.ts';
import { oneLine } from '../terminal.ts';
import { loadSamples, type QueueCounts, queueDrained, type SampleOptions } from './samples.ts';

/** So long the summary waits for the sample listings: what it says to try looks for them. */
const PATIENCE_MS = 15_000;

/** How many sample listings were sent, or that they still are being; 0 where none had to be, or could be. */
export type SamplesStanding = number | 'being sent';

/** Where they go, and who is told of it. */
export type SendOptions = SampleOptions & {
  /** Is called when they are processed, before that is told. */
  onProcessed: () => Promise<void> | undefined;
  /** Is told what becomes of them, in the background too. */
  tell: (line: string) => void;
  patienceMs?: number;
};

/**
 * Sends the sample listings, and tells when they are processed. It goes on in the background as soon as the collector
 * holds them back, as its limits do, which may be for minutes, and else after 15 s.
 * @returns How they stand by then; it never throws.
 */
export function sendSamples(options: SendOptions): Promise<SamplesStanding> {
  const { signal, tell, patienceMs = PATIENCE_MS } = options;
  const held = Promise.withResolvers<SamplesStanding>();
  const tellRetry = createTellOnce((line) => tell(`Sending the sample listings: ${line}`));
  const sent = loadSamples(options, (reason) => {
    tellRetry(reason);
    held.resolve('being sent');
  });
  const late = sleep(patienceMs, 'being sent' as const, { signal, ref: false });
  void follow(sent, options);
  return Promise.race<SamplesStanding>([sent, held.promise, late]).catch(() => 0);
}

async function follow(
  sent: Promise<number>,
  { collector, signal, onProcessed, tell }: SendOptions,
): Promise<void> {
  try {
    await sent;
  } catch (error) {
    tell(`The sample listings could not all be sent: ${reasonIn(error)}. The next start goes on.`);
    return;
  }
  try {
    const counts = await queueDrained({ collector, signal });
    await onProcessed();
    tell(`The sample listings are processed.${describeCounts(counts)}`);
  } catch (error) {
    tell(`The sample listings could not be followed: ${reasonIn(error)}.`);
  }
}

function reasonIn(error: unknown): string {
  return oneLine(error instanceof Error ? error.message : String(error)).replace(/\.$/, '');
}

/** The counts are of the whole database, which may have had more in it before. */
function describeCounts({ completed, invalid, failed }: QueueCounts): string {
  if (completed === null || invalid === null || failed === null) return '';
  return ` The collector has ${completed} completed, ${invalid} no listing, ${failed} failed.`;
}
