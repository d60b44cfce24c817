import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { stringify } from 'csv-stringify/sync';
import { html } from 'ghtml';
import { addBrackets } from '../address.ts';
import { removeCredentials } from '../credentials.ts';
import { type Day, countDaysBetween, parseDay } from '../day.ts';
import { type EndpointRecord, EXPOSURES, PROPERTY_TYPES } from '../record.ts';
import { formatMarkdownCell, formatCount, escapeInvisibleOnPage } from '../text.ts';

/** Number of records with a label. */
type Count = { label: string; count: number };

/** Counts of a report. */
type Summary = {
  /** Counts of all exposures, widest first. */
  byExposure: Count[];
  /** Counts by owner, largest first. */
  byOwner: Count[];
  /** Counts by age of the last review, most recent first. */
  byReview: Count[];
};

const NO_OWNER = 'no owner';

const AGES = new Map([
  ['up to 90 days ago', 90],
  ['up to 180 days ago', 180],
  ['up to a year ago', 365],
  ['longer ago', Infinity],
]);
const FUTURE = 'in the future';
const NO_DAY = 'no readable date';

/** Counts records by exposure, owner and age of the last review. */
function summarize(records: readonly EndpointRecord[], today: Day): Summary {
  const ages = records.map((record) => {
    const age = getReviewAge(record, today);
    if (age === null) return NO_DAY;
    if (age < 0) return FUTURE;
    return AGES.entries().find(([, days]) => age <= days)?.[0] ?? NO_DAY;
  });
  const exposures = records.map(({ exposure }) => exposure);
  return {
    byExposure: countLabels(exposures, EXPOSURES),
    byOwner: countLabels(records.map(formatOwner)).toSorted((a, b) => b.count - a.count),
    byReview: countLabels(ages, [FUTURE, ...AGES.keys(), NO_DAY]),
  };
}

function countLabels(labels: readonly string[], order: readonly string[] = []): Count[] {
  const found = new Map(order.map((label) => [label, 0]));
  for (const label of labels) found.set(label, (found.get(label) ?? 0) + 1);
  return Array.from(found, ([label, number]) => ({ label, count: number }));
}

/** Returns the age of the last review in days. Null if the date is invalid. */
function getReviewAge({ last_reviewed: written }: EndpointRecord, today: Day): number | null {
  const day = parseDay(written);
  return day === null ? null : countDaysBetween(day, today);
}

/** Returns the owner of an endpoint for a report. */
function formatOwner({ owner_host: owner = '' }: EndpointRecord): string {
  return owner.trim() === '' ? NO_OWNER : owner;
}

/** Returns the URL of an endpoint without credentials, or its host and port. */
function formatAddress({ url, host, domain, port }: EndpointRecord): string {
  if (url !== undefined && url.trim() !== '') return removeCredentials(url);
  const name = host?.trim() || domain?.trim() || '';
  return port === undefined ? name : `${addBrackets(name)}:${port}`;
}

/** Formats the counts and all records as GitHub Markdown, piece by piece. */
export function* formatMarkdownReport(
  records: readonly EndpointRecord[],
  { title, today }: { title: string; today: Day },
): Generator<string> {
  yield `# ${formatMarkdownCell(title)}\n\n${formatCount(records.length, 'endpoint')} on ${today}.\n\n`;
  const { byExposure, byOwner, byReview } = summarize(records, today);
  for (const [label, rows] of [
    ['exposure', byExposure],
    ['owner', byOwner],
    ['last review', byReview],
  ] as const) {
    yield tableHead([label, 'endpoints']);
    for (const { label: name, count: number } of rows) yield tableRow([name, String(number)]);
    yield '\n';
  }
  yield tableHead([
    'name',
    'exposure',
    'type',
    'status',
    'address',
    'owner',
    'auth',
    'last reviewed',
  ]);
  for (const record of records) {
    const { name, exposure, type, status, auth = '', last_reviewed: reviewed } = record;
    const address = formatAddress(record);
    yield tableRow([name, exposure, type, status, address, formatOwner(record), auth, reviewed]);
  }
}

function tableHead(names: readonly string[]): string {
  return tableRow(names) + tableRow(names.map(() => '---'));
}

function tableRow(cells: readonly string[]): string {
  return `| ${cells.map((text) => formatMarkdownCell(text)).join(' | ')} |\n`;
}

/** Formulas are escaped, because spreadsheets would execute them. */
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

const STYLE = readFileSync(new URL('page/page.css', import.meta.url), 'utf8');
const SCRIPT = readFileSync(new URL('page/page.js', import.meta.url), 'utf8');

// The hash covers the whole text of the element, so no space may surround the text.
const STYLE_ELEMENT = `<style>${STYLE}</style>`;
const SCRIPT_ELEMENT = `<script>${SCRIPT}</script>`;

/** Allows only the page's own style and script, by their hashes. */
const POLICY = `default-src 'none'; style-src ${hash(STYLE)}; script-src ${hash(SCRIPT)}; base-uri 'none'; form-action 'none'`;

/** Placeholder of the rows. Escaped text of records cannot contain it. */
const ROWS = '<!-- rows -->';

/** Properties with columns of the table. */
const SHOWN = new Set(['id', 'name', 'type', 'status', 'exposure', 'auth', 'last_reviewed']);

/** Number of records above which browsers take seconds to open, sort and filter the page. */
const MAX_QUICK_RECORDS = 5_000;

const LARGE = `This page has more than ${MAX_QUICK_RECORDS.toLocaleString('en')} records and may be slow. A CSV report opens in a spreadsheet.`;

/** Tells whether the page of these records is slow in browsers. */
export function isLargeReport(records: readonly EndpointRecord[]): boolean {
  return records.length > MAX_QUICK_RECORDS;
}

const COMPARE = new Intl.Collator(undefined, { numeric: true }).compare;

const COLUMNS = ['Name', 'Exposure', 'Type', 'Status', 'Address', 'Owner', 'Auth', 'Last reviewed'];

/**
 * Formats an HTML page with the counts and all records, piece by piece. The table can be sorted and filtered. The page
 * loads no resources and is complete without scripts.
 */
export function* formatHtmlReport(
  records: readonly EndpointRecord[],
  { title, today }: { title: string; today: Day },
): Generator<string> {
  const { byExposure, byOwner, byReview } = summarize(records, today);
  const owners = byOwner.map(({ label }) => label).toSorted(COMPARE);
  const [head = '', tail = ''] = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta http-equiv="Content-Security-Policy" content="${POLICY}" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="referrer" content="no-referrer" />
        <title>${escapeInvisibleOnPage(title)}</title>
        !${STYLE_ELEMENT}
      </head>
      <body>
        <header>
          <h1>${escapeInvisibleOnPage(title)}</h1>
          <p>
            ${formatCount(records.length, 'endpoint')} on <time datetime="${today}">${today}</time>
          </p>
          !${isLargeReport(records) ? html`<p class="warning">${LARGE}</p>` : ''}
        </header>
        <main>
          <section class="counts" aria-label="Counts">
            !${countTable('Exposure', byExposure, records.length)}
            !${escapeInvisibleOnPage(countTable('Owner', byOwner, records.length))}
            !${countTable('Last review', byReview, records.length)}
          </section>
          <form class="filters" hidden>
            <label>Search <input type="search" name="text" autocomplete="off" /></label>
            <label
              >Exposure
              <select name="exposure">
                <option value="">all</option>
                !${options(EXPOSURES)}
              </select></label
            >
            <label
              >Owner
              <select name="owner">
                <option value="">all</option>
                !${escapeInvisibleOnPage(options(owners))}
              </select></label
            >
            <button type="reset">Show all</button>
            <output role="status"></output>
          </form>
          <div class="scroll" role="region" aria-label="Endpoints" tabindex="0">
            <table>
              <thead>
                <tr>
                  !${COLUMNS.map((name) => html`<th scope="col">${name}</th>`)}
                </tr>
              </thead>
              <tbody>
                !${ROWS}
              </tbody>
            </table>
          </div>
        </main>
        !${SCRIPT_ELEMENT}
      </body>
    </html> `.split(ROWS);
  yield head;
  for (const record of records) yield escapeInvisibleOnPage(htmlRow(record, today));
  yield tail;
}

function countTable(title: string, of: readonly Count[], all: number): string {
  const rows = of.map(
    ({ label, count: number }) =>
      html`<tr>
        <th scope="row">${label}</th>
        <td class="number">${number}</td>
        <td aria-hidden="true"><meter max="${Math.max(all, 1)}" value="${number}"></meter></td>
      </tr> `,
  );
  return html`<table>
    <caption>
      ${title}
    </caption>
    <tbody>
      !${rows}
    </tbody>
  </table>`;
}

function options(values: readonly string[]): string {
  return values.map((value) => html`<option value="${value}">${value}</option>`).join('');
}

function htmlRow(record: EndpointRecord, today: Day): string {
  const { exposure, type, status, auth = '', last_reviewed: reviewed } = record;
  const age = getReviewAge(record, today);
  const owner = formatOwner(record);
  // Empty values sort last in both directions.
  const day = parseDay(reviewed) ?? '';
  return html`<tr data-exposure="${exposure}" data-owner="${owner}">
    <th scope="row">!${nameCell(record)}</th>
    <td data-sort="${EXPOSURES.indexOf(exposure)}">
      <span class="exposure ${exposure}">${exposure}</span>
    </td>
    <td>${type}</td>
    <td>${status}</td>
    <td>!${formatLink(formatAddress(record))}</td>
    <td data-sort="${owner === NO_OWNER ? '' : owner}">${owner}</td>
    <td>${auth}</td>
    <td data-sort="${day}">
      ${reviewed}!${age === null ? '' : html` <small>${formatAge(age)}</small>`}
    </td>
  </tr> `;
}

/** Formats the cell with the name and the properties without columns. */
function nameCell(record: EndpointRecord): string {
  const more = Object.entries(record)
    .filter(([key]) => !SHOWN.has(key))
    .map(
      ([key, value]) =>
        html`<dt>${key}</dt>
          <dd>!${detail(key, value)}</dd>`,
    );
  return html`<details>
    <summary>${record.name}</summary>
    <dl>
      <dt>id</dt>
      <dd>${record.id}</dd>
      !${more}
    </dl>
  </details>`;
}

function detail(key: string, value: unknown): string {
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

function hash(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}
