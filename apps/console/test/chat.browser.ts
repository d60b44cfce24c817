import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '@oselya/testing';
import { sql } from 'kysely';
import type { Page } from 'playwright-core';
import { createGate, startScriptedModel } from '../../assistant/test/helpers/scripted-model.ts';
import { checkAccessibility, signIn, startPlatform } from './support/platform.ts';

const model = await startScriptedModel();
const platform = await startPlatform(model.env);
const { url, proxy, idp } = platform;

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

const field = (page: Page) => page.getByRole('textbox', { name: 'Write a message' });
const answers = (page: Page) => page.getByRole('article', { name: 'Assistant' });
const questions = (page: Page) => page.getByRole('article', { name: 'You' });
/** Texts of the answers, without the line of an answer that is being written. */
const readAnswers = async (page: Page) =>
  (await answers(page).locator('[dir=auto]').allInnerTexts()).map((text) => text.trim());

/** Waits until the page shows these answers and no other. */
const waitForAnswers = (page: Page, expected: readonly string[]) =>
  until(`the answers ${expected.join(' | ')}`, async () => {
    const shown = await readAnswers(page);
    return (
      shown.length === expected.length && shown.every((text, index) => text === expected[index])
    );
  });

async function ask(page: Page, text: string): Promise<void> {
  await field(page).fill(text);
  await field(page).press('Enter');
}

async function openChat(page: Page, path = '/app/chat'): Promise<void> {
  await page.goto(url + path);
  await signIn(page);
  await field(page).waitFor();
}

test('An answer survives a broken network, a second tab and a restart, and each part comes once', async () => {
  const { context, page, faults } = await platform.openWindow();
  await openChat(page);
  const [second, third, last] = [createGate(), createGate(), createGate()];
  model.scripts.push({
    words: ['One ', second.opened, 'two ', third.opened, 'three ', last.opened, 'four.'],
  });
  await ask(page, 'Count');
  await waitForAnswers(page, ['One']);
  await page.waitForURL(/\/app\/chat\/[^/]+$/);

  const otherPage = await context.newPage();
  await otherPage.goto(page.url());
  await waitForAnswers(otherPage, ['One']);
  second.open();
  for (const tab of [page, otherPage]) await waitForAnswers(tab, ['One two']);
  proxy.cut();
  third.open();
  for (const tab of [page, otherPage]) await waitForAnswers(tab, ['One two three']);
  await page.reload();
  await waitForAnswers(page, ['One two three']);
  last.open();
  for (const tab of [page, otherPage]) {
    await waitForAnswers(tab, ['One two three four.']);
    await until('the end', async () => (await tab.getByText('Writing…').count()) === 0);
    assert.equal(await questions(tab).count(), 1);
  }

  // The tab that did not ask follows the question and its answer, also over a restart.
  const never = createGate();
  model.scripts.push({ words: ['Five ', never.opened] }, { words: ['Six.'] });
  await ask(otherPage, 'Go on');
  for (const tab of [page, otherPage]) await waitForAnswers(tab, ['One two three four.', 'Five']);
  await platform.restartAssistant();
  never.open();
  for (const tab of [page, otherPage])
    await tab.getByRole('button', { name: 'Try again' }).waitFor();
  await page.getByRole('button', { name: 'Try again' }).click();
  for (const tab of [page, otherPage]) await waitForAnswers(tab, ['One two three four.', 'Six.']);
  assert.equal(await questions(page).count(), 2);
  assert.deepEqual(faults, []);
  await context.close();
});

test('Tools bring listings, changes of the memory can be undone, and no text of an answer acts', async () => {
  const { context, page, faults } = await platform.openWindow();
  await openChat(page);
  const fact = { category: 'wishes', key: 'pets', value: 'A dog' };
  model.scripts.push(
    { tools: [{ name: 'remember_fact', arguments: fact }] },
    { tools: [{ name: 'search_listings', arguments: { query: 'квартира', city: 'Львів' } }] },
    {
      words: [
        'Look at #1.\n\n<script>document.title = "run"</script>\n\n',
        '![x](https://leak.test/x.png) [bad](javascript:alert(1)) [site](https://site.test/a)\n\n',
        '| a | b |\n|---|---|\n| 1 | 2 |\n',
      ],
    },
  );
  await ask(page, 'A flat in Lviv, and I have a dog');
  const cards = page.getByRole('complementary', { name: 'Listings' });
  await cards.getByText('Квартира a').waitFor();
  await page.getByText('Searching listings').waitFor();
  const search = page.getByRole('link', { name: 'Open as a search' });
  assert.match((await search.getAttribute('href')) ?? '', /^\/app\/search\?q=.*&city=/);
  const answer = answers(page).first();
  await answer.getByRole('cell', { name: '2' }).waitFor();
  assert.equal(await answer.locator('img, script').count(), 0);
  assert.equal(await answer.getByRole('link', { name: 'bad' }).count(), 0);
  assert.match(await answer.innerText(), /site \(site\.test\)/);
  const site = answer.getByRole('link', { name: 'site' });
  assert.equal(await site.getAttribute('rel'), 'noopener noreferrer');
  assert.equal(
    await answer.getByRole('link', { name: '#1' }).getAttribute('href'),
    '/app/listings/1',
  );

  await page.getByText('Remembered: pets — A dog').waitFor();
  await checkConversation(page);
  await page.getByRole('link', { name: 'Memory' }).click();
  await page.getByRole('region', { name: 'wishes' }).getByText('A dog').waitFor();
  await page.goBack();
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByText('Undone').waitFor();
  await page.getByRole('link', { name: 'Memory' }).click();
  await page.getByText('Nothing is remembered yet').waitFor();

  // The search in conversations finds the question.
  await page.getByRole('link', { name: 'Chat', exact: true }).click();
  await page.getByRole('searchbox', { name: 'Search in conversations' }).fill('dog');
  await page
    .getByRole('link', { name: /have a dog/ })
    .first()
    .click();
  await questions(page).getByText('I have a dog').waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});

test('A long session opens at its end, brings earlier messages, and keeps few of them in the page', async () => {
  const { context, page, faults } = await platform.openWindow();
  await openChat(page);
  const sessionId = 'long';
  const count = 400;
  await sql`
    insert into conversation_sessions (id, user_id, profile_id, name)
    values (${sessionId}, 'u-olena', 'default', 'Long')`.execute(platform.database.db);
  await sql`
    insert into conversation_messages (session_id, role, content, created_at)
    select ${sessionId}, case when n % 2 = 1 then 'user' else 'assistant' end,
      'Message ' || n || repeat(' and more text', n % 60), now() - (${count} - n) * interval '1 second'
    from generate_series(1, ${count}) as n`.execute(platform.database.db);
  await page.goto(`${url}/app/chat/${sessionId}`);
  await page.getByText(`Message ${count} and`).waitFor();
  const conversation = page.getByRole('group', { name: 'Conversation' });
  // Each scroll to the beginning loads a page, and the view keeps its place.
  await until('the first message', async () => {
    await conversation.evaluate((element) => element.scrollTo(0, 0));
    return (await page.getByText('Message 1 and', { exact: false }).count()) > 0;
  });
  assert.ok((await page.getByRole('article').count()) < 60);
  await page.getByRole('button', { name: 'To the latest message' }).click();
  await page.getByText(`Message ${count} and`).waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});

/** Checks a conversation with axe in both themes and widths. */
async function checkConversation(page: Page): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: 800 });
      await checkAccessibility(page, `conversation, ${colorScheme}, ${width} px`);
      assert.equal(await page.evaluate('document.documentElement.scrollWidth'), width);
    }
  }
  await page.setViewportSize({ width: 1280, height: 800 });
}

test('An answer can be stopped, and a draft survives a reload and the end of the session', async () => {
  const { context, page, faults } = await platform.openWindow();
  await openChat(page);
  const never = createGate();
  model.scripts.push({ words: ['Begun ', never.opened] }, { words: ['Again ', never.opened] });
  await ask(page, 'Stop me');
  await waitForAnswers(page, ['Begun']);
  await page.getByRole('button', { name: 'Stop the answer' }).click();
  await page.getByText('You stopped this answer.').waitFor();
  await field(page).fill('A draft');
  await page.reload();
  await page.getByText('You stopped this answer.').waitFor();
  assert.equal(await field(page).inputValue(), 'A draft');

  await page.getByRole('button', { name: 'Try again' }).click();
  await waitForAnswers(page, ['Again']);
  const conversationUrl = page.url();
  idp.setBlocked('u-olena', true);
  await page.getByText('What you typed is kept').waitFor();
  never.open();
  idp.setBlocked('u-olena', false);
  await signIn(page);
  await page.waitForURL(conversationUrl);
  // The server has finished the answer meanwhile.
  await waitForAnswers(page, ['Again']);
  assert.equal(await field(page).inputValue(), 'A draft');
  assert.deepEqual(faults, []);
  await context.close();
});
