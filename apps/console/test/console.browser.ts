import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '@oselya/testing';
import type { Page } from 'playwright-core';
import { checkAccessibility, signIn, startPlatform, waitUntilIdle } from './support/platform.ts';

const platform = await startPlatform();
const { url } = platform;

const listing = (id: string, description: string, members: object = {}) => ({
  source_slug: 'lviv',
  external_id: id,
  title: `Квартира ${id}`,
  description,
  ...members,
});

const HOSTILE_TEXT = '<img src=x onerror="document.title=1"><b onmouseover=alert(1)>\u202eпарк';
const IS_WIDE = 'document.documentElement.scrollWidth > innerWidth';

const WORDS = ['тихо ', 'світло ', 'сонячно ', 'просторо ', 'затишно ', 'зручно ', 'охайно '];

await platform.ingest([
  listing(
    'a',
    'Здам 2-кімнатну квартиру біля парку у Львові, 52 м², 5/9 пов. Ціна 15 000 грн на місяць.',
  ),
  listing(
    'b',
    'Здам 1-кімнатну квартиру у Львові, 33 м², 3/5 пов., балкон. Ціна 11 000 грн на місяць.',
  ),
  listing('c', 'Продам 3-кімнатну квартиру в Одесі, 84 м², 6/10 пов. Ціна 92 000 дол.'),
  listing('d', 'Продам 2-кімнатну квартиру в Києві, 60 м², 2/16 пов. Ціна 75 000 дол.'),
  listing('e', 'Продам 2-кімнатну квартиру у Львові, Сихів, 61 м². Ціна 50 000 дол.'),
  // The texts differ enough for none to be a likely duplicate of another.
  ...Array.from({ length: 60 }, (_, index) =>
    listing(
      `n${index}`,
      `Здам ${(index % 4) + 1}-кімнатну квартиру в Дніпрі, ${25 + index * 9} м². Ціна ${9000 + index * 700} грн на місяць. ${WORDS[index % WORDS.length]?.repeat(9)}`,
      { source_slug: `dnipro-${index % 3}` },
    ),
  ),
]);
await platform.ingest([
  listing('d', 'Продам 2-кімнатну квартиру в Києві, 60 м², 2/16 пов. Ціна 69 000 дол.'),
]);

const getPath = (page: Page) => page.url().slice(url.length);
const getTitles = (page: Page) => page.locator('article h3').allInnerTexts();
const rowOf = (page: Page, title: string) => page.locator('article').filter({ hasText: title });

test('A user signs in from a deep link, and signs out of all tabs', async () => {
  const { context, page, faults } = await platform.openWindow();
  const address = `${url}/app/search?city=%D0%9B%D1%8C%D0%B2%D1%96%D0%B2&sort=price_asc`;
  await page.goto(address);
  await page.getByRole('link', { name: 'Sign in' }).waitFor();
  await checkAccessibility(page, 'sign-in page');
  const otherTab = await context.newPage();
  await otherTab.goto(`${url}/app/search`);
  await otherTab.getByRole('link', { name: 'Sign in' }).waitFor();
  await signIn(page);
  await page.waitForURL(address);
  // The other tab learns that it is signed in, and shows its page.
  await otherTab.getByRole('heading', { name: /^\d\d listings$/ }).waitFor();
  assert.equal(await page.evaluate('localStorage.length + sessionStorage.length <= 3'), true);

  await page.getByRole('button', { name: 'Olena Koval' }).click();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('link', { name: 'Sign in' }).waitFor();
  await otherTab.getByText('Your session has ended').waitFor();
  assert.equal((await context.request.get(`${url}/auth/me`)).status(), 401);
  assert.deepEqual(faults, []);
});

test('A search is its address: facets, chips, order, going back, a copied address', async () => {
  const { context, page, faults } = await platform.openWindow();
  const requests: string[] = [];
  page.on('request', (request) => {
    const { pathname } = new URL(request.url());
    if (!pathname.startsWith('/app') && !pathname.startsWith('/images')) requests.push(pathname);
  });
  await page.goto(url);
  await signIn(page);
  await page.getByRole('heading', { name: /^\d\d listings$/ }).waitFor();
  requests.length = 0;
  await page.reload();
  await page.locator('article').first().waitFor();
  const indexOfResults = requests.indexOf('/listings/browse');
  assert.ok(indexOfResults >= 0 && indexOfResults < 3, requests.join());

  await page.getByRole('checkbox', { name: 'Львів 3' }).check();
  await page.getByRole('heading', { name: '3 listings' }).waitFor();
  await page.getByRole('checkbox', { name: 'Rent', exact: false }).first().check();
  await page.getByRole('heading', { name: '2 listings' }).waitFor();
  await page.getByLabel('Order').selectOption('Cheapest first');
  await until(
    'the cheapest listing to be first',
    async () => (await getTitles(page))[0]?.endsWith('b') === true,
  );
  assert.match(getPath(page), /deal_type=rent&city=%D0%9B\S+&sort=price_asc$/);
  const titles = await getTitles(page);

  await page.getByLabel('Price: maximum').fill('12 000');
  await page.getByLabel('Price: maximum').press('Enter');
  await page.getByRole('heading', { name: '1 listing' }).waitFor();
  assert.match(getPath(page), /currency=UAH&price_max=12000/);
  await page.goBack();
  await page.getByRole('heading', { name: '2 listings' }).waitFor();

  const copy = await context.newPage();
  await copy.goto(page.url());
  await copy.locator('article').first().waitFor();
  assert.deepEqual(await getTitles(copy), titles);
  await copy.getByRole('button', { name: 'Remove: Rent' }).click();
  await copy.getByRole('heading', { name: '3 listings' }).waitFor();

  const box = page.getByRole('combobox', { name: 'Search' });
  await box.fill('парк Оде');
  await page.getByRole('option', { name: /Одеса/ }).first().waitFor();
  await box.press('ArrowDown');
  await box.press('Enter');
  await page.getByRole('button', { name: 'Remove: Одеса' }).waitFor();
  await page.locator('article mark').first().waitFor();

  await page.goto(`${url}/app/search?city=Одеса&deal_type=rent`);
  await page.getByText('No listing matches all of this').waitFor();
  await checkAccessibility(page, 'empty result');
  // The offers begin with the filter that costs most.
  const offer = page.getByRole('button', { name: /^Without/ }).first();
  assert.match(await offer.innerText(), /^Without “Одеса”\s+62 listings$/);
  await offer.click();
  await page.getByRole('heading', { name: '62 listings' }).waitFor();
  await page.getByRole('button', { name: 'Clear all' }).click();
  await page.getByRole('heading', { name: '65 listings' }).waitFor();
  assert.deepEqual(faults, []);
});

test('Marks and the comparison survive a reload, by keyboard alone', async () => {
  const { page, faults } = await platform.openWindow({ reducedMotion: 'reduce' });
  await page.goto(`${url}/app/search?sort=price_asc&city=Київ&city=Одеса`);
  await signIn(page);
  await rowOf(page, 'Квартира d').waitFor();
  assert.match(await rowOf(page, 'Квартира d').innerText(), /\$69,000[^]*\$75,000[^]*-8%/);
  // On a Cyrillic layout the key has another letter.
  await page.evaluate(
    "document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'о', code: 'KeyJ', bubbles: true }))",
  );
  await page.locator('[data-index="0"] a:focus').waitFor();
  await page.keyboard.press('c');
  await page.keyboard.press('j');
  await page.locator('[data-index="1"] a:focus').waitFor();
  await page.keyboard.press('c');
  await page.getByRole('link', { name: 'Compare 2' }).waitFor();
  const saved = page.waitForResponse((response) => response.url().endsWith('/mark'));
  await page.keyboard.press('s');
  await page.locator('select[data-action=status]:focus').selectOption('Viewing planned');
  assert.equal((await saved).status(), 200);
  await checkAccessibility(page, 'search with a comparison');

  await page.getByRole('link', { name: 'Compare 2' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('columnheader', { name: /Квартира c/ }).waitFor();
  const best = page.locator('td[data-best=true]');
  assert.deepEqual(await best.allInnerTexts(), [
    '$69,000best',
    '$1,095best',
    '3 roomsbest',
    '84 m²best',
  ]);
  await page.getByRole('checkbox', { name: 'Differences only' }).check();
  assert.equal(await page.getByRole('row', { name: /^Deal / }).count(), 0);
  await checkAccessibility(page, 'comparison');
  await page.reload();
  await page.getByRole('columnheader', { name: /Квартира d/ }).waitFor();
  await page.getByRole('button', { name: 'Remove from the comparison' }).first().click();
  await until('one column', async () => (await page.getByRole('columnheader').count()) === 2);

  await page.keyboard.press('g');
  await page.keyboard.press('s');
  await page.locator('article').first().waitFor();
  await page.goto(`${url}/app/search?sort=price_asc&city=Київ&city=Одеса`);
  await page.getByRole('combobox', { name: 'Status' }).nth(1).waitFor();
  await until(
    'the status to be shown again',
    async () => (await page.locator('select[data-status=viewing]').count()) === 1,
  );
  await page.keyboard.press('j');
  await page.locator('article a:focus').waitFor();
  await page.keyboard.press('h');
  await page.getByRole('button', { name: 'Show again' }).click();
  await until('the row to return', async () => (await page.locator('article h3').count()) === 2);

  await page.keyboard.press('Control+k');
  await page.getByPlaceholder('Go to a page or run a command').fill('keyboard');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
  await checkAccessibility(page, 'keyboard shortcuts');
  await page.keyboard.press('Escape');
  assert.deepEqual(faults, []);
});

test('A listing shows its facts with their origins, its prices and changes, and takes a mark', async () => {
  const { page, faults } = await platform.openWindow();
  await page.goto(`${url}/app/search?q=Київ&mode=words`);
  await signIn(page);
  await rowOf(page, 'Квартира d').getByRole('link').click();
  await page.getByRole('heading', { name: 'Квартира d' }).waitFor();
  const price = page.locator('details').filter({ hasText: 'Price' }).first();
  await price.locator('summary').click();
  await price.getByText(/The model \S+ read this in the text/).waitFor();
  await page.getByRole('img', { name: 'Prices from $69,000 to $75,000' }).waitFor();
  await page.getByText('Show the prices as a table').click();
  assert.match(await page.getByRole('table').innerText(), /\$69,000[^]*\$75,000/);
  await page.getByText('$75,000 → $69,000').waitFor();
  await page.getByRole('heading', { name: 'Similar listings' }).waitFor();
  assert.equal(await page.getByRole('link', { name: 'Ask the assistant' }).count(), 1);
  await page.getByRole('button', { name: '4 stars' }).click();
  await page.getByLabel('Note').fill('Спитати про опалення');
  await page.getByLabel('Tags').fill('парк, тихо');
  const saved = page.waitForResponse((response) => response.request().method() === 'PUT');
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await saved;
  await page.reload();
  await page.getByRole('button', { name: '4 stars', pressed: true }).waitFor();
  assert.equal(await page.getByLabel('Note').inputValue(), 'Спитати про опалення');
  assert.equal(await page.getByLabel('Tags').inputValue(), 'парк, тихо');
  await checkAccessibility(page, 'listing');

  await page.goto(`${url}/app/listings/999999`);
  await page.getByRole('alert').getByText('listing_not_found', { exact: false }).waitFor();
  await page.goto(`${url}/app/nothing`);
  await page.getByRole('heading', { name: 'There is no such page' }).waitFor();
  assert.deepEqual(faults, []);
});

test('Hostile texts are text: no script, no request to another origin, no report', async () => {
  const { page, faults } = await platform.openWindow();
  // The collector strips tags, so the texts are replaced on their way.
  const hostileListing = {
    title: HOSTILE_TEXT,
    description: `${HOSTILE_TEXT} ${'довго '.repeat(8000)} ${'довго'.repeat(400)}`,
    address: HOSTILE_TEXT,
    url: 'javascript:alert(1)',
    city: HOSTILE_TEXT,
    place: null,
    contact_name: HOSTILE_TEXT,
    features: [HOSTILE_TEXT],
    property_type: HOSTILE_TEXT,
  };
  await page.route(/\/listings\/(search|browse|5)$/, async (route) => {
    if (route.request().resourceType() === 'document') return route.continue();
    const response = await route.fetch();
    const data = (await response.json()) as { items?: { listing: object; highlight?: string }[] };
    for (const hit of data.items ?? []) {
      Object.assign(hit.listing, hostileListing);
      hit.highlight = `<mark>парк</mark> <mark><img src=x></mark> &#60;b&#62; ${HOSTILE_TEXT}`;
    }
    await route.fulfill({ response, json: data.items ? data : { ...data, ...hostileListing } });
  });
  await page.goto(`${url}/app/search?q=${encodeURIComponent(HOSTILE_TEXT)}`);
  await signIn(page);
  await page.locator('article mark', { hasText: '<img src=x>' }).first().waitFor();
  await page.goto(`${url}/app/listings/5`);
  await page.getByRole('heading', { name: /<img src=x/ }).waitFor();
  await page.getByRole('heading', { name: 'Similar listings' }).waitFor();
  const dangerous = 'a[href^="javascript:"], img[src="x"], main script, main b[onmouseover]';
  assert.equal(await page.locator(dangerous).count(), 0);
  assert.equal(await page.evaluate(IS_WIDE), false, 'long words must not widen the page');
  assert.equal(await page.title(), `${HOSTILE_TEXT} · Oselya`);
  assert.deepEqual(faults, []);
});

test('Every page is accessible in both themes, on a telephone and in three languages', async () => {
  for (const [locale, colorScheme, width] of [
    ['uk', 'light', 390],
    ['ru', 'dark', 1280],
    ['en', 'dark', 390],
    ['uk', 'light', 900],
  ] as const) {
    const { context, page, faults } = await platform.openWindow({
      locale,
      colorScheme,
      viewport: { width, height: 844 },
      reducedMotion: 'reduce',
    });
    await page.goto(`${url}/auth/login`);
    await page.getByRole('button', { name: 'Olena' }).click();
    for (const path of [
      '/app/search?q=парк&city=Львів',
      '/app/search',
      '/app/listings/1',
      '/app/compare?ids=1&ids=2&ids=3',
    ]) {
      await page.goto(url + path);
      await waitUntilIdle(page);
      assert.equal(await page.locator('html').getAttribute('lang'), locale);
      const name = `${path} in ${locale}, ${colorScheme}, ${width} px`;
      assert.equal(await page.evaluate(IS_WIDE), false, name);
      await checkAccessibility(page, name);
    }
    if (width === 390) {
      await page.goto(`${url}/app/search`);
      await page.getByRole('button', { name: /^(Filters|Фільтри)/ }).click();
      await page.getByRole('dialog').getByRole('checkbox').first().waitFor();
      await checkAccessibility(page, `filters in ${locale}`);
    }
    assert.deepEqual(faults, []);
    await context.close();
  }
});

test('A long list draws few rows, and pages follow by themselves', async () => {
  const { page } = await platform.openWindow();
  await page.goto(`${url}/app/search`);
  await signIn(page);
  await page.getByRole('heading', { name: /^\d\d listings$/ }).waitFor();
  const total = Number.parseInt(await page.locator('h2').innerText(), 10);
  const lastRow = page.locator(`[data-index="${total - 1}"]`);
  await until('the end of the list', async () => {
    await page.mouse.wheel(0, 4000);
    return lastRow.isVisible();
  });
  assert.ok((await page.locator('article').count()) < 30);
  await page.getByText('These were all listings').waitFor();
});
