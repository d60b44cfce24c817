import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import type { EndpointRecord } from '@oselya/inventory';
import endpointSchema from '@oselya/inventory/endpoint.schema.json' with { type: 'json' };
import { type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { parseDay } from '../src/day.ts';
import { formatHtmlReport } from '../src/report/report.ts';
import { VALID_RECORD } from './support.ts';

const folder = await mkdtemp(join(tmpdir(), 'inventory-report-'));
after(() => rm(folder, { recursive: true }));
const browser = await chromium.launch({
  executablePath: process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking'],
});
after(() => browser.close());

const MARKUP = `"><img src=x onerror="document.title='run'"><script>document.title='run'</script>`;

function record(id: string, more: Partial<EndpointRecord> = {}): EndpointRecord {
  return { ...VALID_RECORD, exposure: 'private', id, name: id, ...more };
}

const RECORDS = [
  record('gateway', { exposure: 'private', owner_host: 'edge-1', last_reviewed: '2026-11-01' }),
  record('Shop', { exposure: 'public', owner_host: 'edge-2', last_reviewed: '2024-02-01' }),
  record('archive', { exposure: 'local', last_reviewed: 'never', port: 2, host: 'nas' }),
  record('backup', { exposure: 'local', last_reviewed: '2026-11-19', port: 10, host: 'nas' }),
];

/** Opens the report of records and collects requests and errors of the page. */
async function open(
  records: EndpointRecord[],
  { title = 'Net', ...options }: { title?: string } & BrowserContextOptions = {},
) {
  const today = parseDay('2026-11-20');
  assert.ok(today);
  const file = join(folder, 'report.html');
  await writeFile(file, [...formatHtmlReport(records, { title, today })].join(''));
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const requests: string[] = [];
  const errors: string[] = [];
  page.on('request', (request) => requests.push(request.url()));
  page.on('pageerror', (error) => errors.push(error.message));
  page.on('console', (message) => errors.push(message.text()));
  const url = pathToFileURL(file).href;
  await page.goto(url);
  return { page, url, requests, errors, close: () => context.close() };
}

const names = (page: Page) => page.locator('.scroll tbody tr:visible summary').allTextContents();
const header = (page: Page, name: string) => page.getByRole('columnheader', { name });

test('The page loads nothing, and columns sort by their values, also by keyboard', async () => {
  const { page, url, requests, errors, close } = await open(RECORDS);
  assert.deepEqual([requests, errors], [[url], []]);
  assert.deepEqual(await names(page), ['gateway', 'Shop', 'archive', 'backup']);
  await page.getByRole('button', { name: 'Name' }).focus();
  await page.keyboard.press('Enter');
  assert.deepEqual(await names(page), ['archive', 'backup', 'gateway', 'Shop']);
  assert.equal(await header(page, 'Name').getAttribute('aria-sort'), 'ascending');
  await page.keyboard.press('Space');
  assert.deepEqual(await names(page), ['Shop', 'gateway', 'backup', 'archive']);
  await page.getByRole('button', { name: 'Exposure' }).click();
  assert.equal((await names(page))[0], 'Shop');
  assert.equal(await header(page, 'Name').getAttribute('aria-sort'), null);
  // Ports sort as numbers, and records without a readable date come last.
  await page.getByRole('button', { name: 'Address' }).click();
  assert.ok((await names(page)).join().includes('archive,backup'));
  await page.getByRole('button', { name: 'Last reviewed' }).click();
  assert.deepEqual(await names(page), ['Shop', 'gateway', 'backup', 'archive']);
  await page.getByRole('button', { name: 'Last reviewed' }).click();
  assert.deepEqual(await names(page), ['backup', 'gateway', 'Shop', 'archive']);
  for (const column of ['Owner', 'Owner', 'Address', 'Address']) {
    await page.getByRole('button', { name: column }).click();
    const blank = column === 'Owner' ? ['archive', 'backup'] : ['gateway', 'Shop'];
    assert.deepEqual((await names(page)).slice(-2), blank, column);
  }
  await close();
});

test('Words, exposure and owner filter together, and a reset shows all', async () => {
  const { page, close } = await open(RECORDS);
  const status = page.getByRole('status');
  assert.equal(await status.textContent(), '4 of 4 shown');
  await page.getByLabel('Exposure').selectOption('local');
  assert.deepEqual(await names(page), ['archive', 'backup']);
  await page.getByLabel('Search').fill('NAS:10');
  assert.deepEqual(await names(page), ['backup']);
  assert.equal(await status.textContent(), '1 of 4 shown');
  await page.getByLabel('Owner').selectOption('edge-1');
  assert.deepEqual(await names(page), []);
  await page.getByRole('button', { name: 'Show all' }).click();
  await status.getByText('4 of 4 shown').waitFor();
  assert.equal((await names(page)).length, 4);
  await close();
});

test('The page works with the keyboard alone and shows the focus', async () => {
  const { page, close } = await open(RECORDS);
  const keyboard = page.keyboard;
  const focused = () =>
    page.evaluate<string>(`(() => {
      const { activeElement: at } = document;
      return at.name || at.getAttribute('aria-label') || at.textContent.trim();
    })()`);
  const outline = () =>
    page.evaluate<string>('getComputedStyle(document.activeElement).outlineStyle');
  const stops: string[] = [];
  for (let stop = 0; stop < 14; stop += 1) {
    await keyboard.press('Tab');
    stops.push(await focused());
    assert.notEqual(await outline(), 'none', `visible focus on ${stops.at(-1)}`);
  }
  const columns = 'Name,Exposure,Type,Status,Address,Owner,Auth,Last reviewed'.split(',');
  const controls = ['text', 'exposure', 'owner', 'Show all', 'Endpoints'];
  assert.deepEqual(stops, [...controls, ...columns, 'gateway']);

  await keyboard.press('Enter');
  const folded = page.getByText('docs/gateway.md').first();
  assert.ok(await folded.isVisible());
  await keyboard.press('Space');
  assert.equal(await folded.isVisible(), false);
  await close();
});

test('Texts of records and titles never become markup or scripts', async () => {
  const { properties } = endpointSchema.items;
  assert.equal(Object.keys(properties).length, 18);
  const extraProperties = Object.fromEntries(Object.keys(properties).map((name) => [name, MARKUP]));
  const hostile = record(MARKUP, { ...extraProperties, [MARKUP]: { [MARKUP]: MARKUP } });
  const links = record('links', { docs: 'javascript:document.title=1', url: 'data:text/html,x' });
  const { page, requests, errors, close } = await open([hostile, links], { title: MARKUP });
  assert.equal(await page.title(), MARKUP);
  assert.equal(await page.getByRole('heading').textContent(), MARKUP);
  assert.equal(await page.locator('img').count(), 0);
  assert.equal(await page.locator('script').count(), 1);
  assert.equal(await page.locator('a').count(), 0);
  assert.deepEqual(await names(page), [MARKUP, 'links']);
  const shown = (await page.locator('tbody tr', { hasText: MARKUP }).last().textContent()) ?? '';
  assert.equal(shown.split('<img src=x').length - 1 >= Object.keys(properties).length, true);
  await page.getByLabel('Owner').selectOption(MARKUP);
  assert.deepEqual(await names(page), [MARKUP]);
  assert.equal(requests.length, 1);
  assert.deepEqual(errors, []);
  await close();
});

/** A4 at 96 pixels an inch. */
const PAPER = { width: 794, height: 1123 };

for (const javaScriptEnabled of [true, false]) {
  const scripts = javaScriptEnabled ? 'with scripts' : 'without scripts';
  test(`The page has all records, and a print has no controls and open details, ${scripts}`, async () => {
    const long = 'a'.repeat(300);
    const records = [...RECORDS, record('long', { purpose: long, url: `https://x.test/${long}` })];
    const { page, close } = await open(records, { javaScriptEnabled, viewport: PAPER });
    assert.equal((await names(page)).length, 5);
    assert.equal(await page.locator('form:visible').count(), javaScriptEnabled ? 1 : 0);
    assert.equal(await page.locator('thead button').count(), javaScriptEnabled ? 8 : 0);
    const folded = page.getByText('docs/gateway.md').first();
    assert.equal(await folded.isVisible(), false);
    await page.emulateMedia({ media: 'print' });
    assert.equal(await page.locator('form:visible').count(), 0);
    assert.ok(await folded.isVisible());
    assert.equal(await page.evaluate('document.documentElement.scrollWidth'), PAPER.width);
    // Each page repeats the names of the columns.
    const head = await page.evaluate(
      'getComputedStyle(document.querySelector(".scroll thead")).display',
    );
    assert.equal(head, 'table-header-group');
    await close();
  });
}
