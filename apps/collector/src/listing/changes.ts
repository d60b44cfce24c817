import { type Log, assignPositions } from '@oselya/db';
import { createCursorCodec, type RateLimit, type Server } from '@oselya/kit';
import { type Kysely, sql } from 'kysely';
import { type Static, Type } from 'typebox';
import { createRateLimitHook } from '../access/guard.ts';
import { problem, problemResponses } from '../errors.ts';
import { choice, MAX_ID, nullable } from '../schemas.ts';
import type { Tables } from '../tables.ts';

/** Number of days for which changes are kept. Clients that poll less often miss changes. */
const RETENTION_DAYS = 30;

/** Default and maximum number of changes in a response. */
const MAX_PAGE_SIZE = 100;

/** Number of changes that one maintenance statement updates or deletes. */
const MAX_BATCH_SIZE = 10_000;

/** Maximum number of positions to assign while a client waits. */
const MAX_ASSIGNED_POSITIONS = 1000;

/** Maximum number of positions that a page reads, because few of them may match a client's sources. */
const MAX_SCANNED_POSITIONS = 50_000;

/** Log of listing changes, to which database triggers append (migration 0020). ADR 0021. */
const CHANGE_LOG: Log = {
  table: 'listing_changes',
  sequence: 'listing_changes_positions',
  // "feed" in ASCII.
  lockKey: 0x66_65_65_64,
};

const cursorError = {
  path: 'querystring/after',
  message: 'must be the cursor of an earlier response; omit it to begin with the next change',
};

/** Codec for a position and the time of its change in ms since the epoch; null if the position has no change. */
const changeCursorCodec = createCursorCodec(
  Type.Tuple([Type.Integer({ minimum: 0, maximum: MAX_ID }), nullable(Type.Integer())]),
  cursorError,
);

const changesQuerySchema = Type.Object(
  {
    after: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 256,
        description:
          'The `cursor` of the previous response. Without it, the response has the changes from now on, and those of the last ' +
          'minute if many changes are not in order yet (`has_more`).',
      }),
    ),
    limit: Type.Optional(
      Type.Integer({ minimum: 1, maximum: MAX_PAGE_SIZE, default: MAX_PAGE_SIZE }),
    ),
  },
  { additionalProperties: false },
);

const priceDescription = 'Null unless the price changed.';
const priceSchema = nullable(Type.Number({ description: priceDescription }));
const currencySchema = nullable(Type.String({ description: priceDescription }));

const changeSchema = Type.Object({
  listing_id: Type.Integer(),
  source_slug: Type.String(),
  kind: choice(['new', 'price_changed', 'returned'], {
    description:
      '`price_changed`: the source sent another price or currency. A price that the model reads differently from the same payload ' +
      'does not count. `returned`: the listing was archived, and its source sent it again.',
  }),
  price_from: priceSchema,
  price_to: priceSchema,
  currency_from: currencySchema,
  currency_to: currencySchema,
  changed_at: Type.String({ format: 'date-time' }),
});

const exampleChange: Static<typeof changeSchema> = {
  listing_id: 640,
  source_slug: 'doshka',
  kind: 'price_changed',
  price_from: 62_000,
  price_to: 59_500,
  currency_from: 'USD',
  currency_to: 'USD',
  changed_at: '2026-05-04T09:00:01.500Z',
};

const changesResponseSchema = Type.Object(
  {
    items: Type.Array(changeSchema),
    cursor: Type.String({
      description: 'The value of `after` in the next request, even if `items` is empty.',
    }),
    has_more: Type.Boolean({
      description: 'Whether more changes are available immediately, even if `items` is empty.',
    }),
  },
  {
    description: 'Changes in the order of their commits.',
    examples: [{ items: [exampleChange], cursor: 'WzQwNywxNzc3ODg1MjAxNTAwXQ', has_more: false }],
  },
);

/** Registers `GET /listings/changes`, for clients with saved searches. ADR 0021. */
export function registerChangeRoutes(
  app: Server,
  { db, limit: rateLimit }: { db: Kysely<Tables>; limit: RateLimit },
): void {
  app.get(
    '/listings/changes',
    {
      config: { scope: 'search' },
      onRequest: createRateLimitHook(rateLimit),
      schema: {
        tags: ['listings'],
        summary: 'List listings that are new, have another price, or have returned',
        description:
          'Send the first request without `after`, then send the `cursor` of each response as `after`: no change is omitted or ' +
          `repeated. Changes are kept for ${RETENTION_DAYS} days. A key with a list of sources gets the changes of ` +
          'these sources. After the database was restored from a backup, a newer cursor is rejected (422): begin again without ' +
          'a cursor.',
        querystring: changesQuerySchema,
        response: { 200: changesResponseSchema, ...problemResponses(401, 403, 422, 429, 503) },
      },
    },
    ({ query, apiKey }) =>
      readChanges(db, {
        after: query.after,
        limit: query.limit ?? MAX_PAGE_SIZE,
        sources: apiKey?.source_slugs ?? null,
      }),
  );
}

/**
 * Returns the changes after a cursor in commit order. Without a cursor, returns only a cursor at the end of the feed.
 * @param options.sources Sources to include. Null for all sources.
 * @throws ProblemError `validation_failed` if `after` is not a cursor of this database.
 */
async function readChanges(
  db: Kysely<Tables>,
  options: { after: string | undefined; sources: readonly string[] | null; limit: number },
): Promise<Static<typeof changesResponseSchema>> {
  const { limit, sources } = options;
  const cursor = changeCursorCodec.read(options.after);
  const hasPendingChanges =
    (await assignPositions(db, CHANGE_LOG, MAX_ASSIGNED_POSITIONS)) !== 'done';
  const { lastStoredPosition, lastAssignedPosition } = await readLastPositions(db);
  if (cursor === undefined) {
    const endCursor = await createCursor(db, lastStoredPosition);
    return { items: [], cursor: endCursor, has_more: hasPendingChanges };
  }
  const [afterPosition, cursorTime] = cursor;
  // A database restored from a backup may have a different change at this position. Expired changes cannot be checked.
  const changeTime = await readChangeTime(db, afterPosition);
  if (afterPosition > lastAssignedPosition || (changeTime !== null && changeTime !== cursorTime)) {
    throw problem('validation_failed', { errors: [cursorError] });
  }
  const lastPosition = Math.max(
    afterPosition,
    Math.min(lastStoredPosition, afterPosition + MAX_SCANNED_POSITIONS),
  );
  const rows = await listChanges(db, { afterPosition, lastPosition, sources, limit: limit + 1 });
  const page = rows.slice(0, limit);
  const hasMoreRows = rows.length > limit;
  const endPosition = (hasMoreRows ? page.at(-1)?.position : undefined) ?? lastPosition;
  return {
    items: page.map(({ position: _position, created_at, ...change }) => ({
      ...change,
      changed_at: created_at.toISOString(),
    })),
    cursor:
      endPosition === afterPosition
        ? changeCursorCodec.write(cursor)
        : await createCursor(db, endPosition),
    has_more: hasMoreRows || lastPosition < lastStoredPosition || hasPendingChanges,
  };
}

async function createCursor(db: Kysely<Tables>, position: number): Promise<string> {
  return changeCursorCodec.write([position, await readChangeTime(db, position)]);
}

/** Returns the time of the change at a position, in ms since the epoch; null if the position has no change. */
async function readChangeTime(db: Kysely<Tables>, position: number): Promise<number | null> {
  const row = await db
    .selectFrom('listing_changes')
    .select('created_at')
    .where('position', '=', position)
    .executeTakeFirst();
  return row?.created_at.getTime() ?? null;
}

/** Returns the last position with a change, and the last position that the sequence assigned. */
async function readLastPositions(db: Kysely<Tables>) {
  const { rows } = await sql<{ lastStoredPosition: number; lastAssignedPosition: number }>`
    select coalesce((select max(position) from listing_changes), 0) as "lastStoredPosition",
      (select case when is_called then last_value else 0 end from listing_changes_positions)
        as "lastAssignedPosition"
  `.execute(db);
  return rows[0] ?? { lastStoredPosition: 0, lastAssignedPosition: 0 };
}

function listChanges(
  db: Kysely<Tables>,
  options: {
    afterPosition: number;
    lastPosition: number;
    sources: readonly string[] | null;
    limit: number;
  },
) {
  const { afterPosition, lastPosition, sources, limit } = options;
  return db
    .selectFrom('listing_changes')
    .select(['listing_id', 'source_slug', 'kind', 'created_at'])
    .select(['price_from', 'price_to', 'currency_from', 'currency_to'])
    .select((eb) => eb.ref('position').$notNull().as('position'))
    .where('position', '>', afterPosition)
    .where('position', '<=', lastPosition)
    .$if(sources !== null, (query) =>
      query.where('source_slug', '=', sql<string>`any(${sources ?? []}::text[])`),
    )
    .orderBy('position')
    .limit(limit)
    .execute();
}

/**
 * Assigns positions to all changes in batches, so that the next reader waits less. Stops early if the signal aborts or
 * another process is assigning positions.
 */
export async function assignChangePositions(
  db: Kysely<Tables>,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted && (await assignPositions(db, CHANGE_LOG, MAX_BATCH_SIZE)) === 'more');
}

/**
 * Deletes expired changes in batches. Stops early if the signal aborts.
 * @returns The number of deleted changes.
 */
export async function removeOldChanges(db: Kysely<Tables>, signal: AbortSignal): Promise<number> {
  let deletedCount = 0;
  let batchSize = MAX_BATCH_SIZE;
  while (batchSize === MAX_BATCH_SIZE && !signal.aborted) {
    const { numAffectedRows } = await sql`
      delete from listing_changes
      where id in (select id from listing_changes order by id limit ${MAX_BATCH_SIZE})
        and created_at < now() - ${RETENTION_DAYS} * interval '1 day'`.execute(db);
    batchSize = Number(numAffectedRows ?? 0n);
    deletedCount += batchSize;
  }
  return deletedCount;
}
