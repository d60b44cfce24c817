import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { stringify } from 'csv-stringify/sync';
import { html } from 'ghtml';
import { addBrackets } from '../address.ts';
import { removeCredentials } from '../credentials.ts';
import { countDaysBetween, type Day, parseDay } from '../day.ts';
import { type EndpointRecord, EXPOSURES, PROPERTY_TYPES } from '../record.ts';
import { escapeInvisibleOnPage, formatCount, formatMarkdownCell } from '../text.ts';

type LabelCounts = [label: string, count: number][];

const NO_OWNER_LABEL = 'no owner';

const MAX_DAYS_BY_AGE_LABEL = new Map([
  ['up to 90 days ago', 90],
  ['up to 180 days ago', 180],
  ['up to a year ago', 365],
  ['longer ago', Infinity],
]);
const FUTURE_LABEL = 'in the future';
const NO_DATE_LABEL = 'no readable date';

/** Counts records by exposure, owner and age of the last review. */
function countRecords(records: readonly EndpointRecord[], today: Day): [string, LabelCounts][] {
  const ages = records.map((record) => {
    const age = getReviewAge(record, today);
    if (age === null) return NO_DATE_LABEL;
    if (age < 0) return FUTURE_LABEL;
    return MAX_DAYS_BY_AGE_LABEL.entries().find(([, days]) => age <= days)?.[0] ?? NO_DATE_LABEL;
  });
  const exposures = records.map(({ exposure }) => exposure);
  return [
    ['exposure', countLabels(exposures, EXPOSURES)],
    ['owner', countLabels(records.map(formatOwner)).toSorted(([, a], [, b]) => b - a)],
    [
      'last review',
      countLabels(ages, [FUTURE_LABEL, ...MAX_DAYS_BY_AGE_LABEL.keys(), NO_DATE_LABEL]),
    ],
  ];
}

function countLabels(labels: readonly string[], order: readonly string[] = []): LabelCounts {
  const counts = new Map(order.map((label) => [label, 0]));
  for (const label of labels) counts.set(label, (counts.get(label) ?? 0) + 1);
  return [...counts];
}

function getReviewAge({ last_reviewed: reviewText }: EndpointRecord, today: Day): number | null {
  const day = parseDay(reviewText);
  return day === null ? null : countDaysBetween(day, today);
}

function formatOwner({ owner_host: owner = '' }: EndpointRecord): string {
  return owner.trim() === '' ? NO_OWNER_LABEL : owner;
}

/** Returns the URL of an endpoint without credentials, or its host and port. */
function formatAddress({ url, host, domain, port }: EndpointRecord): string {
  if (url !== undefined && url.trim() !== '') return removeCredentials(url);
  const name = host?.trim() || domain?.trim() || '';
  return port === undefined ? name : `${addBrackets(name)}:${port}`;
}

const COLUMNS = ['Name', 'Exposure', 'Type', 'Status', 'Address', 'Owner', 'Auth', 'Last reviewed'];

/** Formats the counts and all records as GitHub Markdown in chunks. */
export function* formatMarkdownReport(
  records: readonly EndpointRecord[],
  { title, today }: { title: string; today: Day },
): Generator<string> {
  yield `# ${formatMarkdownCell(title)}\n\n${formatCount(records.length, 'endpoint')} on ${today}.\n\n`;
  for (const [label, counts] of countRecords(records, today)) {
    yield formatTableHead([label, 'endpoints']);
    for (const [name, count] of counts) yield formatMarkdownRow([name, String(count)]);
    yield '\n';
  }
  yield formatTableHead(COLUMNS.map((name) => name.toLowerCase()));
  for (const record of records) {
    const { name, exposure, type, status, auth = '', last_reviewed: reviewDate } = record;
    const [address, owner] = [formatAddress(record), formatOwner(record)];
    yield formatMarkdownRow([name, exposure, type, status, address, owner, auth, reviewDate]);
  }
}

function formatTableHead(names: readonly string[]): string {
  return formatMarkdownRow(names) + formatMarkdownRow(names.map(() => '---'));
}

function formatMarkdownRow(cells: readonly string[]): string {
  return `| ${cells.map((text) => formatMarkdownCell(text)).join(' | ')} |\n`;
}

/** CSV options. They escape formulas, because spreadsheets would execute them. */
const CSV_OPTIONS = { escape_formulas: true, record_delimiter: 'windows' } as const;

/** Formats records as CSV (RFC 4180), row by row: the columns of the specification, then extra properties. */
export function* formatCsvReport(records: readonly EndpointRecord[]): Generator<string> {
  const names = new Set(PROPERTY_TYPES.keys());
  for (const record of records) for (const key of Object.keys(record)) names.add(key);
  const columns = [...names];
  yield stringify([columns.map(escapeInvisibleOnPage)], CSV_OPTIONS);
  for (const record of records) {
    const row = columns.map((column) => {
      const value = Object.hasOwn(record, column) ? record[column] : '';
      return escapeInvisibleOnPage(typeof value === 'string' ? value : JSON.stringify(value));
    });
    yield stringify([row], CSV_OPTIONS);
  }
}

const readPageFile = (name: string) =>
  readFileSync(new URL(`page/${name}`, import.meta.url), 'utf8');
const [PAGE_TEMPLATE, PAGE_STYLE, PAGE_SCRIPT] = ['page.html', 'page.css', 'page.js'].map(
  readPageFile,
) as [string, string, string];
const hashSource = (text: string) => `'sha256-${hash('sha256', text, 'base64')}'`;

/** Policy that allows only the page's own style and script, by their hashes. */
const CONTENT_SECURITY_POLICY = `default-src 'none'; style-src ${hashSource(PAGE_STYLE)}; script-src ${hashSource(PAGE_SCRIPT)}; base-uri 'none'; form-action 'none'`;

/** Placeholder for the rows. Escaped record text cannot contain it. */
const ROWS_PLACEHOLDER = '<!-- rows -->';

/** Number of records above which browsers take seconds to open, sort and filter the page. */
const MAX_QUICK_RECORDS = 5_000;

/** Returns whether a page with these records is slow in browsers. */
export function isLargeReport(records: readonly EndpointRecord[]): boolean {
  return records.length > MAX_QUICK_RECORDS;
}

/**
 * Formats an HTML page with the counts and all records in chunks. The table can be sorted and filtered. The page
 * loads no resources and is complete without scripts.
 */
export function* formatHtmlReport(
  records: readonly EndpointRecord[],
  { title, today }: { title: string; today: Day },
): Generator<string> {
  const { compare } = new Intl.Collator(undefined, { numeric: true });
  const owners = [...new Set(records.map(formatOwner))].toSorted(compare);
  const sizeWarning = `This page has more than ${MAX_QUICK_RECORDS.toLocaleString('en')} records and may be slow. A CSV report opens in a spreadsheet.`;
  const parts: Record<string, string> = {
    policy: html`${CONTENT_SECURITY_POLICY}`,
    title: html`${title}`,
    today,
    count: formatCount(records.length, 'endpoint'),
    // The hash covers all text of the element, so no space may surround it.
    style: `<style>${PAGE_STYLE}</style>`,
    script: `<script>${PAGE_SCRIPT}</script>`,
    warning: isLargeReport(records) ? html`<p class="warning">${sizeWarning}</p>` : '',
    counts: countRecords(records, today)
      .map(([label, counts]) => formatCountTable(label, counts, records.length))
      .join(''),
    exposures: formatOptions(EXPOSURES),
    owners: formatOptions(owners),
    columns: COLUMNS.map((name) => html`<th scope="col">${name}</th>`).join(''),
    rows: ROWS_PLACEHOLDER,
  };
  const page = PAGE_TEMPLATE.replaceAll(/<!-- (\w+) -->|\{\{(\w+)\}\}/g, (_, element, text) => {
    const part = parts[element ?? text] ?? '';
    return element === 'style' || element === 'script' ? part : escapeInvisibleOnPage(part);
  });
  const [head = '', tail = ''] = page.split(ROWS_PLACEHOLDER);
  yield head;
  for (const record of records) yield escapeInvisibleOnPage(formatTableRow(record, today));
  yield tail;
}

function formatCountTable(label: string, counts: LabelCounts, total: number): string {
  const rows = counts.map(
    ([name, count]) =>
      html`<tr>
        <th scope="row">${name}</th>
        <td class="number">${count}</td>
        <td aria-hidden="true"><meter max="${Math.max(total, 1)}" value="${count}"></meter></td>
      </tr> `,
  );
  const caption = label.charAt(0).toUpperCase() + label.slice(1);
  return html`<table>
    <caption>
      ${caption}
    </caption>
    <tbody>
      !${rows}
    </tbody>
  </table>`;
}

function formatOptions(values: readonly string[]): string {
  return values.map((value) => html`<option value="${value}">${value}</option>`).join('');
}

function formatTableRow(record: EndpointRecord, today: Day): string {
  const { exposure, type, status, auth = '', last_reviewed: reviewDate } = record;
  const age = getReviewAge(record, today);
  const owner = formatOwner(record);
  // Empty values sort last in both directions.
  const day = parseDay(reviewDate) ?? '';
  return html`<tr data-exposure="${exposure}" data-owner="${owner}">
    <th scope="row">!${formatNameCell(record)}</th>
    <td data-sort="${EXPOSURES.indexOf(exposure)}">
      <span class="exposure ${exposure}">${exposure}</span>
    </td>
    <td>${type}</td>
    <td>${status}</td>
    <td>!${formatLink(formatAddress(record))}</td>
    <td data-sort="${owner === NO_OWNER_LABEL ? '' : owner}">${owner}</td>
    <td>${auth}</td>
    <td data-sort="${day}">
      ${reviewDate}!${age === null ? '' : html` <small>${formatAge(age)}</small>`}
    </td>
  </tr> `;
}

const KEYS_WITH_COLUMNS = new Set('id name type status exposure auth last_reviewed'.split(' '));

/** Formats the cell with the name and, as details, the ID and all properties outside `KEYS_WITH_COLUMNS`. */
function formatNameCell(record: EndpointRecord): string {
  const extraProperties = Object.entries(record)
    .filter(([key]) => !KEYS_WITH_COLUMNS.has(key))
    .map(
      ([key, value]) =>
        html`<dt>${key}</dt>
          <dd>!${formatDetail(key, value)}</dd>`,
    );
  return html`<details>
    <summary>${record.name}</summary>
    <dl>
      <dt>id</dt>
      <dd>${record.id}</dd>
      !${extraProperties}
    </dl>
  </details>`;
}

function formatDetail(key: string, value: unknown): string {
  if (typeof value !== 'string') return html`<code>${JSON.stringify(value)}</code>`;
  return key === 'docs' || key === 'url' ? formatLink(removeCredentials(value)) : html`${value}`;
}

/** Formats a link for HTTP URLs. Other schemes may run scripts or local programs. */
function formatLink(text: string): string {
  const url = URL.parse(text);
  if (url === null || !['http:', 'https:'].includes(url.protocol)) return html`${text}`;
  return html`<a href="${url.href}" rel="noopener noreferrer">${text}</a>`;
}

function formatAge(days: number): string {
  if (days < 0) return 'in the future';
  if (days === 0) return 'today';
  return days === 1 ? '1 day ago' : `${days} days ago`;
}
