import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { atEnd, findFreePort } from '@oselya/testing';
import { openTestDatabase } from '@oselya/testing/database';
import { start as startAssistant, type Tables } from '@oselya/assistant';
import { start as startCollector } from '@oselya/collector';
import { createLogger } from '@oselya/kit';
import { sql } from 'kysely';

// The whole way of a listing, from the source to the message, through the two systems as they are.

const folder = mkdtempSync(join(tmpdir(), 'oselya-saved-'));
after(() => rmSync(folder, { recursive: true }));
const log = createLogger({ level: 'silent', service: 'test' });
const collectorDatabase = await openTestDatabase();
const assistantDatabase = await openTestDatabase<Tables>();
const { db } = assistantDatabase;

type Running = { url: string; close: () => Promise<void> };

/** Starts something that ends with the file, or before. */
async function running(started: Promise<Running>): Promise<Running> {
  const it = await started;
  let closing: Promise<void> | undefined;
  const close = () => (closing ??= it.close());
  atEnd(close);
  return { url: it.url, close };
}

const collectorOn = (port: string) =>
  running(
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

const assistantOf = (collectorUrl: string) =>
  running(
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

async function until(condition: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 600; tries += 1) {
    if (await condition()) return;
    await sleep(50);
  }
  assert.fail('It did not come true within 30 s');
}

const port = String(await findFreePort());
let collector = await collectorOn(port);
let assistant = await assistantOf(collector.url);

async function ask<Shape>(path: string, body?: object): Promise<Shape> {
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
async function ingest(nth: number, facts: object = {}): Promise<number> {
  const { raw_id: rawId } = await ask<{ raw_id: number }>('/ingest', {
    source_slug: 'doshka',
    external_id: `flat-${nth}`,
    title: `Квартира ${nth}`,
    description: `Здам двокімнатну квартиру у Львові, ${40 + nth} м², є балкон.`,
    deal_type: 'rent',
    city: 'Львів',
    price: 14_000,
    currency: 'UAH',
    rooms: 2,
    area_total: 40 + nth,
    ...facts,
  });
  let listingId: number | null = null;
  await until(async () => {
    const raw = await ask<{ status: string; listing_id: number | null }>(`/raw/${rawId}`);
    listingId = raw.listing_id;
    return raw.status === 'completed';
  });
  assert.ok(listingId !== null);
  return listingId;
}

/** Somebody who is signed in, as far as digests ask, keeps a search in a session of its own. */
async function keep(name: string, search: object): Promise<string> {
  const { id: sessionId } = await db
    .insertInto('conversation_sessions')
    .values({ user_id: 'u-olena', profile_id: 'default', name })
    .returning('id')
    .executeTakeFirstOrThrow();
  await db
    .insertInto('saved_searches')
    .values({
      user_id: 'u-olena',
      session_id: sessionId,
      name,
      search: JSON.stringify(search),
      every_minutes: 5,
    })
    .execute();
  return sessionId;
}

async function told(sessionId: string): Promise<number[]> {
  const messages = await db
    .selectFrom('conversation_messages')
    .select('content')
    .where('session_id', '=', sessionId)
    .orderBy('position')
    .execute();
  return messages.flatMap(({ content }) =>
    Array.from(String(content).matchAll(/#(\d+)/g), ([, id]) => Number(id)),
  );
}

/** Lets the time pass after which the next digests may come, and waits for what they are to tell. */
async function hears(sessionId: string, ids: readonly number[]): Promise<void> {
  await until(async () => {
    await sql`update saved_searches set told_at = told_at - interval '1 hour'`.execute(db);
    const heard = await told(sessionId);
    return ids.every((id) => heard.includes(id));
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
  // What is there before the feed is read for the first time is in no digest.
  await until(async () => {
    const feed = await db.selectFrom('collector_feed').select('cursor').executeTakeFirstOrThrow();
    return feed.cursor !== null;
  });
  const cheap = await keep('Дешеві', { city: 'Львів', price_max: 15_000 });
  const words = await keep('З балконом', { query: 'балкон' });

  const first = await ingest(1);
  const dear = await ingest(2, { price: 20_000 });
  await ingest(3, {
    city: 'Київ',
    title: 'Будинок',
    description: 'Здам будинок у Києві, 90 м², є гараж.',
  });
  await hears(cheap, [first]);
  await hears(words, [first, dear]);

  // The collector is down when its listing is to be read.
  const late = await ingest(4);
  await collector.close();
  collector = await collectorOn(port);
  await hears(cheap, [late]);

  // So is the assistant; and a listing becomes cheaper.
  await assistant.close();
  const meanwhile = await ingest(5);
  assert.equal(await ingest(2, { price: 14_500 }), dear);
  assistant = await assistantOf(collector.url);
  await hears(cheap, [meanwhile, dear]);
  await hears(words, [late, meanwhile]);

  const last = await ingest(6, { price: 13_000 });
  await hears(cheap, [last]);
  await hears(words, [last]);
  const all = [first, dear, late, meanwhile, last];
  for (const session of [cheap, words]) {
    const heard = await told(session);
    assert.deepEqual(
      { sent: 7, heard: heard.toSorted((one, other) => one - other) },
      { sent: 7, heard: all.toSorted((one, other) => one - other) },
    );
  }
  const digests = await db
    .selectFrom('conversation_messages')
    .select('content')
    .where('session_id', '=', cheap)
    .execute();
  const text = digests.map(({ content }) => String(content).replaceAll('\u00A0', ' ')).join('\n');
  assert.match(text, /14 500 UAH \(було 20 000 UAH\)/);
  await assistant.close();
});
