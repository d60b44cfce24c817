import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import type { EndpointRecord } from '@oselya/inventory';
import endpointSchema from '@oselya/inventory/endpoint.schema.json' with { type: 'json' };
import { openFolder } from '@oselya/testing';
import { type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { parseDay } from '../src/day.ts';
import { formatHtmlReport } from '../src/report/report.ts';
import { VALID_RECORD } from './support.ts';

const folder = await openFolder();
const browser = await chromium.launch({
  executablePath: process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking'],
});
after(() => browser.close());

const MARKUP = `"><img src=x onerror="document.title='run'"><script>document.title='run'</script>`;

function createRecord(id: string, properties: Partial<EndpointRecord> = {}): EndpointRecord {
  return { ...VALID_RECORD, exposure: 'private', id, name: id, ...properties };
}

const RECORDS = [
  createRecord('gateway', { owner_host: 'edge-1', last_reviewed: '2026-11-01' }),
  createRecord('Shop', { exposure: 'public', owner_host: 'edge-2', last_reviewed: '2024-02-01' }),
  createRecord('archive', { exposure: 'local', last_reviewed: 'never', port: 2, host: 'nas' }),
  createRecord('backup', { exposure: 'local', last_reviewed: '2026-11-19', port: 10, host: 'nas' }),
];

/** Opens a report of the records, and collects page requests and errors. */
async function openReport(
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

const getVisibleNames = (page: Page) =>
  page.locator('.scroll tbody tr:visible summary').allTextContents();
const getHeader = (page: Page, name: string) => page.getByRole('columnheader', { name });

test('The page loads nothing, and columns sort by their values, also by keyboard', async () => {
  const { page, url, requests, errors, close } = await openReport(RECORDS);
  assert.deepEqual([requests, errors], [[url], []]);
  assert.deepEqual(await getVisibleNames(page), ['gateway', 'Shop', 'archive', 'backup']);
  await page.getByRole('button', { name: 'Name' }).focus();
  await page.keyboard.press('Enter');
  assert.deepEqual(await getVisibleNames(page), ['archive', 'backup', 'gateway', 'Shop']);
  assert.equal(await getHeader(page, 'Name').getAttribute('aria-sort'), 'ascending');
  await page.keyboard.press('Space');
  assert.deepEqual(await getVisibleNames(page), ['Shop', 'gateway', 'backup', 'archive']);
  await page.getByRole('button', { name: 'Exposure' }).click();
  assert.equal((await getVisibleNames(page))[0], 'Shop');
  assert.equal(await getHeader(page, 'Name').getAttribute('aria-sort'), null);
  // Ports sort as numbers, and records without a readable date come last.
  await page.getByRole('button', { name: 'Address' }).click();
  assert.ok((await getVisibleNames(page)).join().includes('archive,backup'));
  await page.getByRole('button', { name: 'Last reviewed' }).click();
  assert.deepEqual(await getVisibleNames(page), ['Shop', 'gateway', 'backup', 'archive']);
  await page.getByRole('button', { name: 'Last reviewed' }).click();
  assert.deepEqual(await getVisibleNames(page), ['backup', 'gateway', 'Shop', 'archive']);
  for (const column of ['Owner', 'Owner', 'Address', 'Address']) {
    await page.getByRole('button', { name: column }).click();
    const recordsWithoutValue = column === 'Owner' ? ['archive', 'backup'] : ['gateway', 'Shop'];
    assert.deepEqual((await getVisibleNames(page)).slice(-2), recordsWithoutValue, column);
  }
  await close();
});

test('Words, exposure and owner filter together, and a reset shows all', async () => {
  const { page, close } = await openReport(RECORDS);
  const status = page.getByRole('status');
  assert.equal(await status.textContent(), '4 of 4 shown');
  await page.getByLabel('Exposure').selectOption('local');
  assert.deepEqual(await getVisibleNames(page), ['archive', 'backup']);
  await page.getByLabel('Search').fill('NAS:10');
  assert.deepEqual(await getVisibleNames(page), ['backup']);
  assert.equal(await status.textContent(), '1 of 4 shown');
  await page.getByLabel('Owner').selectOption('edge-1');
  assert.deepEqual(await getVisibleNames(page), []);
  await page.getByRole('button', { name: 'Show all' }).click();
  await status.getByText('4 of 4 shown').waitFor();
  assert.equal((await getVisibleNames(page)).length, 4);
  await close();
});

test('The page works with the keyboard alone and shows the focus', async () => {
  const { page, close } = await openReport(RECORDS);
  const keyboard = page.keyboard;
  const getFocusedName = () =>
    page.evaluate<string>(`(() => {
      const { activeElement: element } = document;
      return element.name || element.getAttribute('aria-label') || element.textContent.trim();
    })()`);
  const getOutline = () =>
    page.evaluate<string>('getComputedStyle(document.activeElement).outlineStyle');
  const focusedNames: string[] = [];
  for (let tabCount = 0; tabCount < 14; tabCount += 1) {
    await keyboard.press('Tab');
    focusedNames.push(await getFocusedName());
    assert.notEqual(await getOutline(), 'none', `visible focus on ${focusedNames.at(-1)}`);
  }
  const columns = 'Name,Exposure,Type,Status,Address,Owner,Auth,Last reviewed'.split(',');
  const controls = ['text', 'exposure', 'owner', 'Show all', 'Endpoints'];
  assert.deepEqual(focusedNames, [...controls, ...columns, 'gateway']);

  await keyboard.press('Enter');
  const docsLink = page.getByText('docs/gateway.md').first();
  assert.ok(await docsLink.isVisible());
  await keyboard.press('Space');
  assert.equal(await docsLink.isVisible(), false);
  await close();
});

test('Texts of records and titles never become markup or scripts', async () => {
  const { properties } = endpointSchema.items;
  assert.equal(Object.keys(properties).length, 18);
  const extraProperties = Object.fromEntries(Object.keys(properties).map((name) => [name, MARKUP]));
  const hostileProperties = { ...extraProperties, [MARKUP]: { [MARKUP]: MARKUP } };
  const links = { docs: 'javascript:document.title=1', url: 'data:text/html,x' };
  const records = [createRecord(MARKUP, hostileProperties), createRecord('links', links)];
  const { page, requests, errors, close } = await openReport(records, { title: MARKUP });
  assert.equal(await page.title(), MARKUP);
  assert.equal(await page.getByRole('heading').textContent(), MARKUP);
  assert.equal(await page.locator('img').count(), 0);
  assert.equal(await page.locator('script').count(), 1);
  assert.equal(await page.locator('a').count(), 0);
  assert.deepEqual(await getVisibleNames(page), [MARKUP, 'links']);
  const rowText = (await page.locator('tbody tr', { hasText: MARKUP }).last().textContent()) ?? '';
  assert.ok(rowText.split('<img src=x').length > Object.keys(properties).length);
  await page.getByLabel('Owner').selectOption(MARKUP);
  assert.deepEqual(await getVisibleNames(page), [MARKUP]);
  assert.equal(requests.length, 1);
  assert.deepEqual(errors, []);
  await close();
});

/** A4 at 96 pixels per inch. */
const PAPER = { width: 794, height: 1123 };

for (const javaScriptEnabled of [true, false]) {
  const scripts = javaScriptEnabled ? 'with scripts' : 'without scripts';
  test(`The page has all records, and a print has no controls and open details, ${scripts}`, async () => {
    const purpose = 'a'.repeat(300);
    const longRecord = createRecord('long', { purpose, url: `https://x.test/${purpose}` });
    const options = { javaScriptEnabled, viewport: PAPER };
    const { page, close } = await openReport([...RECORDS, longRecord], options);
    assert.equal((await getVisibleNames(page)).length, 5);
    assert.equal(await page.locator('form:visible').count(), javaScriptEnabled ? 1 : 0);
    assert.equal(await page.locator('thead button').count(), javaScriptEnabled ? 8 : 0);
    const docsLink = page.getByText('docs/gateway.md').first();
    assert.equal(await docsLink.isVisible(), false);
    await page.emulateMedia({ media: 'print' });
    assert.equal(await page.locator('form:visible').count(), 0);
    assert.ok(await docsLink.isVisible());
    assert.equal(await page.evaluate('document.documentElement.scrollWidth'), PAPER.width);
    // Each printed page repeats the column names.
    const tableHeadDisplay = await page.evaluate(
      'getComputedStyle(document.querySelector(".scroll thead")).display',
    );
    assert.equal(tableHeadDisplay, 'table-header-group');
    await close();
  });
}
