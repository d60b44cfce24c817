import { oneLine } from '../terminal.ts';

const NOT_PROCESSED =
  'What was not processed is with the collector: GET /api/v1/raw/{raw_id} says why it ended so, and POST /api/v1/admin/raw/retry puts it back in the queue.';

/** How many names of what went into the attributes are told. */
const MAX_NAMES = 20;

/** What a run has met so far. */
export type Counts = {
  read: number;
  accepted: number;
  /** Were stored by an earlier run of the load. */
  known: number;
  /** Were stored by an earlier run, and could not be processed since. */
  unprocessed: number;
  /** Are no payloads, for the check here or for the collector. */
  refused: number;
  /** Could not be sent, however often it was tried. */
  failed: number;
};

/** The counts before anything is sent. */
export function emptyCounts(): Counts {
  return { read: 0, accepted: 0, known: 0, unprocessed: 0, refused: 0, failed: 0 };
}

/** What was done, as lines for a terminal. */
export function describeRun(
  { read, accepted, known, unprocessed, refused, failed }: Counts,
  { dryRun, attributes }: { dryRun: boolean; attributes: ReadonlySet<string> },
): string[] {
  const unsent = read - accepted - known - unprocessed - refused - failed;
  const counts = [
    `${accepted} accepted`,
    `${known} already known`,
    ...(unprocessed === 0 ? [] : [`${unprocessed} known but not processed`]),
    `${refused} refused`,
    `${failed} failed`,
    ...(unsent === 0 ? [] : [`${unsent} not sent`]),
  ];
  const numbers = dryRun
    ? `${read - refused} can be sent, ${refused} cannot. Nothing was sent.`
    : `${counts.join(', ')}.`;
  return [
    ...describeAttributes(attributes),
    `${countRecords(read)} ${read === 1 ? 'was' : 'were'} read: ${numbers}`,
    ...(unprocessed === 0 ? [] : [NOT_PROCESSED]),
  ];
}

/** Such as `1 record` and `2 records`. */
export function countRecords(count: number): string {
  return count === 1 ? '1 record' : `${count} records`;
}

/**
 * Keeps the name of what is no field of a payload. One more than are told says that there are more: a file may have
 * others in each record.
 */
export function keepName(names: Set<string>, name: string): void {
  if (names.size <= MAX_NAMES) names.add(name);
}

function describeAttributes(names: ReadonlySet<string>): string[] {
  if (names.size === 0) return [];
  return [`No fields of a payload, and so kept in its attributes: ${listNames(names)}`];
}

/** Names that `keepName` kept, in one line. */
export function listNames(names: ReadonlySet<string>): string {
  const shown = [...names].slice(0, MAX_NAMES).map(oneLine).join(', ');
  return names.size > MAX_NAMES ? `${shown}, …` : shown;
}
