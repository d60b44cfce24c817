import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openFolder, deferCleanup, findFreePort, until } from '@oselya/testing';
import { openTestDatabase } from '@oselya/testing/database';
import { start as startAssistant, type Tables } from '@oselya/assistant';
import { start as startCollector } from '@oselya/collector';
import { createLogger } from '@oselya/kit';
import { sql } from 'kysely';

// Tests both systems together, from the source of a listing to the digest.

const folder = await openFolder();
const log = createLogger({ level: 'silent', service: 'test' });
const collectorDatabase = await openTestDatabase();
const assistantDatabase = await openTestDatabase<Tables>();
const { db } = assistantDatabase;

type Running = { url: string; close: () => Promise<void> };

/** Returns a started app that closes only once: in a test, or after the tests. */
async function closeOnce(startup: Promise<Running>): Promise<Running> {
  const app = await startup;
  let closePromise: Promise<void> | undefined;
  const close = () => (closePromise ??= app.close());
  deferCleanup(close);
  return { url: app.url, close };
}

const startCollectorOn = (port: string) =>
  closeOnce(
    startCollector(
      {
        DATA_DIR: folder,
        COLLECTOR_PORT: port,
        COLLECTOR_INGEST_PER_MINUTE: '0',
        EMBEDDING_DIMENSIONS: '16',
        MIN_FREE_DISK_MB: '0',
      },
      { database: collectorDatabase, log },
    ),
  );

const startAssistantFor = (collectorUrl: string) =>
  closeOnce(
    startAssistant(
      {
        ASSISTANT_PORT: '0',
        SVC_AUTH_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64url'),
        COLLECTOR_URL: collectorUrl,
        SAVED_SEARCH_POLL_SECONDS: '1',
      },
      { database: assistantDatabase as never, log },
    ),
  );

const port = String(await findFreePort());
let collector = await startCollectorOn(port);
let assistant = await startAssistantFor(collector.url);

async function request<Shape>(path: string, body?: object): Promise<Shape> {
  const response = await fetch(`${collector.url}/api/v1${path}`, {
    ...(body && {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    }),
  });
  assert.ok(response.ok, `${path}: ${response.status}`);
  return (await response.json()) as Shape;
}

/** Sends a listing and waits until it has been processed. */
async function ingest(index: number, fields: object = {}): Promise<number> {
  const { raw_id: rawId } = await request<{ raw_id: number }>('/ingest', {
    source_slug: 'doshka',
    external_id: `flat-${index}`,
    title: `Квартира ${index}`,
    description: `Здам двокімнатну квартиру у Львові, ${40 + index} м², є балкон.`,
    deal_type: 'rent',
    city: 'Львів',
    price: 14_000,
    currency: 'UAH',
    rooms: 2,
    area_total: 40 + index,
    ...fields,
  });
  let listingId: number | null = null;
  await until(async () => {
    const rawRecord = await request<{ status: string; listing_id: number | null }>(`/raw/${rawId}`);
    listingId = rawRecord.listing_id;
    return rawRecord.status === 'completed';
  });
  assert.ok(listingId !== null);
  return listingId;
}

/** Saves a search in a new session. Returns the session ID. */
async function saveSearch(name: string, search: object): Promise<string> {
  const user_id = 'u-olena';
  const { id: session_id } = await db
    .insertInto('conversation_sessions')
    .values({ user_id, profile_id: 'default', name })
    .returning('id')
    .executeTakeFirstOrThrow();
  const savedSearch = { user_id, session_id, name, search: JSON.stringify(search) };
  await db
    .insertInto('saved_searches')
    .values({ ...savedSearch, every_minutes: 5 })
    .execute();
  return session_id;
}

async function readMessages(sessionId: string): Promise<string[]> {
  const messages = await db
    .selectFrom('conversation_messages')
    .select('content')
    .where('session_id', '=', sessionId)
    .execute();
  return messages.map(({ content }) => String(content));
}

/** Returns the listing IDs in all digests of a session. */
async function readDigests(sessionId: string): Promise<number[]> {
  const text = (await readMessages(sessionId)).join('\n');
  return Array.from(text.matchAll(/#(\d+)/g), ([, id]) => Number(id));
}

/** Makes digests due, and waits until they contain the given listings. */
async function waitForDigests(sessionId: string, ids: readonly number[]): Promise<void> {
  await until(async () => {
    await sql`update saved_searches set told_at = told_at - interval '1 hour'`.execute(db);
    const reportedIds = await readDigests(sessionId);
    return ids.every((id) => reportedIds.includes(id));
  });
}

test('each new listing is reported once for each search, over restarts of both systems', async () => {
  await db
    .insertInto('svc_users')
    .values({ id: 'u-olena', email: 'olena@example.test', permissions: '["svc.tools.use"]' })
    .execute();
  await db
    .insertInto('user_auth_sessions')
    .values({
      id: 'a'.repeat(43),
      user_id: 'u-olena',
      access_token_enc: '',
      refresh_token_enc: '',
      expires_at: null,
      user_agent: null,
      address: null,
    })
    .execute();
  // Listings from before the first feed read appear in no digest, so wait for that read.
  await until(async () => {
    const feed = await db.selectFrom('collector_feed').select('cursor').executeTakeFirstOrThrow();
    return feed.cursor !== null;
  });
  const cheapSession = await saveSearch('Дешеві', { city: 'Львів', price_max: 15_000 });
  const balconySession = await saveSearch('З балконом', { query: 'балкон' });

  const firstId = await ingest(1);
  const expensiveId = await ingest(2, { price: 20_000 });
  await ingest(3, {
    city: 'Київ',
    title: 'Будинок',
    description: 'Здам будинок у Києві, 90 м², є гараж.',
  });
  await waitForDigests(cheapSession, [firstId]);
  await waitForDigests(balconySession, [firstId, expensiveId]);

  // The collector restarts at once, usually before the assistant reads the new listing.
  const lateId = await ingest(4);
  await collector.close();
  collector = await startCollectorOn(port);
  await waitForDigests(cheapSession, [lateId]);

  // The assistant is down while a listing becomes cheaper.
  await assistant.close();
  const offlineId = await ingest(5);
  assert.equal(await ingest(2, { price: 14_500 }), expensiveId);
  assistant = await startAssistantFor(collector.url);
  await waitForDigests(cheapSession, [offlineId, expensiveId]);
  await waitForDigests(balconySession, [lateId, offlineId]);

  const lastId = await ingest(6, { price: 13_000 });
  await waitForDigests(cheapSession, [lastId]);
  await waitForDigests(balconySession, [lastId]);
  const allIds = [firstId, expensiveId, lateId, offlineId, lastId];
  for (const session of [cheapSession, balconySession]) {
    const reportedIds = await readDigests(session);
    assert.equal(reportedIds.length, allIds.length);
    assert.deepEqual(new Set(reportedIds), new Set(allIds));
  }
  const text = (await readMessages(cheapSession)).join('\n').replaceAll('\u00A0', ' ');
  assert.match(text, /14 500 UAH \(було 20 000 UAH\)/);
  await assistant.close();
});
