import { type Kysely, sql } from 'kysely';
import type { RawStatus, Tables } from '../../tables.ts';

/**
 * Where a page ends: the last change of its last payload, in microseconds since the epoch, and its id. It is a number,
 * since whoever sends a cursor may send any: of texts that look like a time the database refuses some.
 */
export type RawPosition = { at: number; id: number };

/** Payloads of a status without what they hold, the last changed first. */
export function listRaw(
  db: Kysely<Tables>,
  options: {
    status: RawStatus;
    source: string | undefined;
    after: RawPosition | undefined;
    limit: number;
  },
) {
  const { status, source, after, limit } = options;
  return db
    .selectFrom('raw_data')
    .select([
      'id',
      'source_slug',
      'external_id',
      'status',
      'attempts',
      'error',
      'listing_id',
      'request_id',
      'created_at',
      'updated_at',
      // A Date has milliseconds only: a page would begin with what the one before it ended with.
      sql<number>`(extract(epoch from updated_at) * 1000000)::bigint`.as('at'),
    ])
    .where('status', '=', status)
    .$if(source !== undefined, (query) => query.where('source_slug', '=', source ?? ''))
    .$if(after !== undefined, (query) =>
      query.where(
        sql<boolean>`(updated_at, id) < (
          timestamptz 'epoch' + ${after?.at}::bigint * interval '1 microsecond', ${after?.id}::bigint)`,
      ),
    )
    .orderBy('updated_at', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
    .execute();
}
