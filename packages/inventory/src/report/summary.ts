import { type Day, daysBetween, readDay } from '../day.ts';
import { withBrackets } from '../host.ts';
import type { EndpointRecord } from '../record.ts';
import { withoutCredentials } from '../credentials.ts';

/** How many records have something in common. */
export type Count = {
  label: string;
  count: number;
};

/** What a report says of the whole inventory. */
export type Summary = {
  records: number;
  /** From those whom everybody reaches to those whom nobody else does; all five, in this order. */
  byExposure: Count[];
  /** Those with most endpoints first. */
  byOwner: Count[];
  /** By the age of the last review, the youngest first. */
  byReview: Count[];
};

/** In the order of a report: what more people reach stands first. */
export const EXPOSURES: readonly EndpointRecord['exposure'][] = [
  'public',
  'unknown',
  'vpn',
  'private',
  'local',
];

export const NO_OWNER = 'no owner';

const AGES: readonly { label: string; days: number }[] = [
  { label: 'up to 90 days ago', days: 90 },
  { label: 'up to 180 days ago', days: 180 },
  { label: 'up to a year ago', days: 365 },
  { label: 'longer ago', days: Infinity },
];
const FUTURE = 'in the future';
const NO_DAY = 'no readable date';

/** Counts records by exposure, owner and age of the last review. */
export function summarize(records: readonly EndpointRecord[], today: Day): Summary {
  const ages = records.map((record) => {
    const age = reviewAge(record, today);
    if (age !== null && age < 0) return FUTURE;
    return age === null ? NO_DAY : (AGES.find(({ days }) => age <= days)?.label ?? NO_DAY);
  });
  return {
    records: records.length,
    byExposure: counts(
      records.map(({ exposure }) => exposure),
      EXPOSURES,
    ),
    byOwner: counts(records.map(ownerOf)).toSorted((a, b) => b.count - a.count),
    byReview: counts(ages, [FUTURE, ...AGES.map(({ label }) => label), NO_DAY]),
  };
}

/** How many days ago the record was reviewed; null when its date is none. */
export function reviewAge({ last_reviewed: written }: EndpointRecord, today: Day): number | null {
  const day = readDay(written);
  return day === null ? null : daysBetween(day, today);
}

/** Who runs an endpoint, as a report says it. */
export function ownerOf({ owner_host: owner = '' }: EndpointRecord): string {
  return owner.trim() === '' ? NO_OWNER : owner;
}

/** Under which address an endpoint is reached: its URL without credentials, else what is known of it. */
export function addressOf({ url, host, domain, port }: EndpointRecord): string {
  if (url !== undefined && url.trim() !== '') return withoutCredentials(url);
  const name = host?.trim() || domain?.trim() || '';
  return port === undefined ? name : `${withBrackets(name)}:${port}`;
}

function counts(labels: readonly string[], order: readonly string[] = []): Count[] {
  const found = new Map(order.map((label) => [label, 0]));
  for (const label of labels) found.set(label, (found.get(label) ?? 0) + 1);
  return Array.from(found, ([label, count]) => ({ label, count }));
}
