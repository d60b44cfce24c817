import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { checkAccessibility, signIn, startPlatform, waitUntilIdle } from './support/platform.ts';

const platform = await startPlatform({ SAVED_SEARCH_POLL_SECONDS: '1' });
const { url } = platform;

const payload = (id: string, description: string) => ({
  source_slug: 'lviv',
  external_id: id,
  title: `Квартира ${id}`,
  description,
});
await platform.ingest([
  payload('a', 'Здам 2-кімнатну квартиру у Львові, 52 м². Ціна 15 000 грн на місяць.'),
  payload('b', 'Здам 1-кімнатну квартиру у Львові, 33 м². Ціна 11 000 грн на місяць.'),
]);

/** Checks the open page with axe in both themes and widths. */
async function checkPage(page: Page, name: string): Promise<void> {
  await waitUntilIdle(page);
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: 800 });
      await checkAccessibility(page, `${name}, ${colorScheme}, ${width} px`);
      assert.equal(await page.evaluate('document.documentElement.scrollWidth'), width, name);
    }
  }
  await page.setViewportSize({ width: 1280, height: 800 });
}

async function open(path: string, name?: string) {
  const { context, page, faults } = await platform.openWindow();
  await page.goto(url + path);
  await signIn(page, name);
  return { context, page, faults };
}

const click = (page: Page, name: string) =>
  page.getByRole('button', { name, exact: true }).first().click();

test('A user saves the search of an address, and its finds arrive', async () => {
  const { context, page, faults } = await open('/app/saved');
  await page.getByText('Nothing is saved yet').waitFor();
  await checkPage(page, 'no saved search');
  await page.getByRole('link', { name: 'Save a search' }).click();
  await page
    .getByLabel('Address of a search')
    .fill(`${url}/app/search?city=Львів&price_max=20000&currency=UAH`);
  await click(page, 'Use');
  await page.getByText('2 listings').waitFor();
  await checkPage(page, 'new saved search');
  await page.getByLabel('Name').fill('Lviv');
  await page.getByLabel('Reports').selectOption('5');
  await click(page, 'Save');
  const saved = page.getByRole('region', { name: 'Lviv' });
  await saved.getByText('no report yet').waitFor();
  await platform.ingest([
    payload('c', 'Здам 1-кімнатну квартиру у Львові, 30 м². Ціна 9 000 грн на місяць.'),
  ]);
  // The digest arrives in the chat, and the page knows it after a reload.
  await saved.getByRole('link', { name: 'Reports in the chat' }).click();
  await page.getByRole('complementary', { name: 'Listings' }).getByText('New').waitFor();
  await page.goBack();
  await page.reload();
  await saved.getByText(/last report/).waitFor();
  await saved.getByRole('button', { name: 'Finds' }).click();
  await saved.getByText('Квартира c').waitFor();
  await saved.getByRole('button', { name: 'Pause' }).click();
  await saved.getByText('Paused').waitFor();
  await checkPage(page, 'saved searches');
  await saved.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.getByText('Nothing is saved yet').waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});

test('Two members of a board give verdicts and discuss a listing', async () => {
  // A user can be added after the first sign-in.
  const taras = await open('/app/boards', 'Taras');
  const { context, page, faults } = await open('/app/boards');
  await page.getByText('You have no boards yet').waitFor();
  await click(page, 'New board');
  await page.getByRole('dialog').getByLabel('Name').fill('For two');
  await click(page, 'Save');
  await page.getByRole('heading', { name: 'For two' }).waitFor();
  for (const number of ['#1', `${url}/app/listings/2`]) {
    await page.getByLabel('Number or address of a listing').fill(number);
    await click(page, 'Add a listing');
    await page
      .getByLabel('Number or address of a listing')
      .and(page.locator('[value=""]'))
      .waitFor();
  }
  const items = page.getByRole('main').locator('ol > li');
  const first = items.filter({ hasText: 'Квартира a' });
  await first.getByLabel('Status').selectOption('viewing');
  await first.getByRole('button', { name: 'Yes' }).click();
  await first.getByText('Olena Koval: Yes').waitFor();
  await first.getByRole('button', { name: 'Add a note' }).click();
  await first.getByRole('textbox', { name: 'Note' }).fill('On Saturday');
  await first.getByRole('button', { name: 'Save' }).click();
  await first.getByText('On Saturday').waitFor();
  const isOnTop = (await items.first().getByText('Квартира a').count()) === 1;
  await first.getByRole('button', { name: isOnTop ? /Move down/ : /Move up/ }).click();
  await items
    .nth(isOnTop ? 1 : 0)
    .getByText('Квартира a')
    .waitFor();
  await click(page, '1 member');
  await page.getByLabel('Email').fill('taras@example.test');
  await page.getByLabel('Role', { exact: true }).selectOption('viewer');
  await checkAccessibility(page, 'members');
  await click(page, 'Add a member');
  await page.getByRole('dialog').getByText('Taras Melnyk').waitFor();
  await page.keyboard.press('Escape');

  await taras.page.goto(page.url());
  const shared = taras.page.getByRole('main').locator('ol > li').filter({ hasText: 'Квартира a' });
  await shared.getByRole('button', { name: 'No', exact: true }).click();
  await shared.getByRole('button', { name: 'Comment', exact: true }).click();
  await shared.getByRole('textbox', { name: 'Write a comment' }).fill('Too far');
  await shared.getByRole('button', { name: 'Send' }).click();
  await shared.getByText('1 comment').waitFor();
  await taras.context.close();

  await page.reload();
  await first.getByText('Taras Melnyk: No').waitFor();
  await first.getByRole('button', { name: '1 comment' }).click();
  await first.getByText('Too far').waitFor();
  await checkPage(page, 'board');
  await page.getByRole('link', { name: 'All boards' }).click();
  await page.getByRole('link', { name: /For two/ }).waitFor();
  await checkPage(page, 'boards');
  assert.deepEqual([...faults, ...taras.faults], []);
  await context.close();
});

test('A user writes, changes and forgets facts, changes settings and deletes all data', async () => {
  const { context, page, faults } = await open('/app/memory');
  await click(page, 'Add a fact');
  await page.getByLabel('Category').fill('wishes');
  await page.getByLabel('About').fill('city');
  await page.getByRole('textbox', { name: 'Fact', exact: true }).fill('Lviv');
  await click(page, 'Save');
  await page.getByRole('button', { name: 'Edit: city' }).click();
  await page.getByRole('dialog').getByLabel('city').fill('Kyiv');
  await click(page, 'Save');
  await page.getByRole('region', { name: 'wishes' }).getByText('Kyiv').waitFor();
  await checkPage(page, 'memory');
  await page.getByRole('button', { name: 'Forget: city' }).click();
  await page.getByText('Forgotten: city').waitFor();
  await click(page, 'Undo');
  await page.getByRole('region', { name: 'wishes' }).getByText('Kyiv').waitFor();

  await page.goto(`${url}/app/account`);
  await page.getByText('This browser').waitFor();
  await checkPage(page, 'account');
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', { name: 'Export' }).click(),
  ]);
  assert.match(download.suggestedFilename(), /json$/);
  await page.getByLabel('Language').selectOption('uk');
  await page.getByRole('heading', { name: 'Налаштування' }).waitFor();
  await page.getByLabel('Мова').selectOption('en');
  await click(page, 'Delete my data');
  const dialog = page.getByRole('dialog');
  const confirm = dialog.getByRole('button', { name: 'Delete my data' });
  assert.equal(await confirm.isDisabled(), true);
  await dialog.getByRole('textbox').fill('olena@example.test');
  await confirm.click();
  await page.getByText('Your account has no data now').waitFor();
  await page.goto(`${url}/app/memory`);
  await page.getByText('Nothing is remembered yet').waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});
