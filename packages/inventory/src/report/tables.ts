import { stringify } from 'csv-stringify/sync';
import { withBrackets } from '../address.ts';
import { withoutCredentials } from '../credentials.ts';
import { type Day, daysBetween, readDay } from '../day.ts';
import { type EndpointRecord, EXPOSURES, PROPERTY_TYPES } from '../record.ts';
import { cell, count, visibleOnPage } from '../text.ts';

/** The number of records with a label. */
export type Count = { label: string; count: number };

/** The counts of a report. */
export type Summary = {
  /** All exposures, the widest first. */
  byExposure: Count[];
  /** The owners with most endpoints first. */
  byOwner: Count[];
  /** By the age of the last review, the most recent first. */
  byReview: Count[];
};

export const NO_OWNER = 'no owner';

const AGES = new Map([
  ['up to 90 days ago', 90],
  ['up to 180 days ago', 180],
  ['up to a year ago', 365],
  ['longer ago', Infinity],
]);
const FUTURE = 'in the future';
const NO_DAY = 'no readable date';

/** Counts records by exposure, owner and age of the last review. */
export function summarize(records: readonly EndpointRecord[], today: Day): Summary {
  const ages = records.map((record) => {
    const age = reviewAge(record, today);
    if (age === null) return NO_DAY;
    if (age < 0) return FUTURE;
    return AGES.entries().find(([, days]) => age <= days)?.[0] ?? NO_DAY;
  });
  const exposures = records.map(({ exposure }) => exposure);
  return {
    byExposure: counts(exposures, EXPOSURES),
    byOwner: counts(records.map(ownerOf)).toSorted((a, b) => b.count - a.count),
    byReview: counts(ages, [FUTURE, ...AGES.keys(), NO_DAY]),
  };
}

function counts(labels: readonly string[], order: readonly string[] = []): Count[] {
  const found = new Map(order.map((label) => [label, 0]));
  for (const label of labels) found.set(label, (found.get(label) ?? 0) + 1);
  return Array.from(found, ([label, number]) => ({ label, count: number }));
}

/** Returns the age of the last review in days; null when its date is invalid. */
export function reviewAge({ last_reviewed: written }: EndpointRecord, today: Day): number | null {
  const day = readDay(written);
  return day === null ? null : daysBetween(day, today);
}

/** Returns the owner of an endpoint as a report shows it. */
export function ownerOf({ owner_host: owner = '' }: EndpointRecord): string {
  return owner.trim() === '' ? NO_OWNER : owner;
}

/** Returns the URL of an endpoint without credentials, else its host and port. */
export function addressOf({ url, host, domain, port }: EndpointRecord): string {
  if (url !== undefined && url.trim() !== '') return withoutCredentials(url);
  const name = host?.trim() || domain?.trim() || '';
  return port === undefined ? name : `${withBrackets(name)}:${port}`;
}

/** Formats the counts and all records as GitHub's Markdown, piece by piece. */
export function* markdownReport(
  records: readonly EndpointRecord[],
  { title, today }: { title: string; today: Day },
): Generator<string> {
  yield `# ${cell(title)}\n\n${count(records.length, 'endpoint')} on ${today}.\n\n`;
  const { byExposure, byOwner, byReview } = summarize(records, today);
  for (const [label, rows] of [
    ['exposure', byExposure],
    ['owner', byOwner],
    ['last review', byReview],
  ] as const) {
    yield head([label, 'endpoints']);
    for (const row of rows) yield line([row.label, String(row.count)]);
    yield '\n';
  }
  yield head(['name', 'exposure', 'type', 'status', 'address', 'owner', 'auth', 'last reviewed']);
  for (const record of records) {
    const { name, exposure, type, status, auth = '', last_reviewed: reviewed } = record;
    const address = addressOf(record);
    yield line([name, exposure, type, status, address, ownerOf(record), auth, reviewed]);
  }
}

function head(names: readonly string[]): string {
  return line(names) + line(names.map(() => '---'));
}

function line(cells: readonly string[]): string {
  return `| ${cells.map((text) => cell(text)).join(' | ')} |\n`;
}

/** Formulas are escaped for spreadsheets. */
const CSV_OPTIONS = { escape_formulas: true, record_delimiter: 'windows' } as const;

/** Formats records as CSV (RFC 4180), row by row: the columns of the specification, then extra properties. */
export function* csvReport(records: readonly EndpointRecord[]): Generator<string> {
  const names = new Set(PROPERTY_TYPES.keys());
  for (const record of records) for (const key of Object.keys(record)) names.add(key);
  const columns = [...names];
  yield stringify([columns.map(visibleOnPage)], CSV_OPTIONS);
  for (const record of records) {
    const row = columns.map((column) => {
      const value = Object.hasOwn(record, column) ? record[column] : '';
      return visibleOnPage(typeof value === 'string' ? value : JSON.stringify(value));
    });
    yield stringify([row], CSV_OPTIONS);
  }
}
