import type { Server } from '@oselya/kit';
import { type Kysely, sql } from 'kysely';
import { type Static, Type } from 'typebox';
import { CHANGE_REJECTIONS } from '../access/guard.ts';
import { problem, problemResponses } from '../errors.ts';
import { choice, idParam, nullable, parseId } from '../schemas.ts';
import type { Tables } from '../tables.ts';

const VERDICTS = ['same', 'different'] as const;
export type Verdict = (typeof VERDICTS)[number];

const MAX_SHOWN_VERDICTS = 100;

const verdictSchema = Type.Object({
  listing_id: Type.Integer({ description: 'ID of the other listing.' }),
  verdict: choice(VERDICTS),
  decided_by: nullable(
    Type.String({ description: 'Name of the API key; null if API keys are off.' }),
  ),
  decided_at: Type.String({ format: 'date-time' }),
});

/** Verdicts on a listing in API responses. */
export const verdictsSchema = Type.Array(verdictSchema, {
  description: `People's decisions whether other listings are the same property, latest first; at most ${MAX_SHOWN_VERDICTS}.`,
});

const verdictBodySchema = Type.Object(
  { verdict: choice(VERDICTS) },
  { additionalProperties: false, examples: [{ verdict: 'different' }] },
);

type StoredVerdict = Omit<Static<typeof verdictSchema>, 'decided_at'> & { decided_at: Date };

const presentVerdict = ({ decided_at, ...row }: StoredVerdict) => ({
  ...row,
  decided_at: decided_at.toISOString(),
});

/** Returns the latest verdicts on a listing. */
export async function listVerdicts(db: Kysely<Tables>, listingId: number) {
  const rows = await selectVerdicts(db, listingId)
    .orderBy('decided_at', 'desc')
    .orderBy('listing_id')
    .limit(MAX_SHOWN_VERDICTS)
    .execute();
  return rows.map(presentVerdict);
}

/** Returns all verdicts on a listing, by the ID of the other listing. */
export async function loadVerdicts(
  db: Kysely<Tables>,
  listingId: number,
): Promise<Map<number, Verdict>> {
  const rows = await selectVerdicts(db, listingId).execute();
  return new Map(rows.map((row) => [row.listing_id, row.verdict]));
}

const selectVerdicts = (db: Kysely<Tables>, listingId: number) =>
  db
    .selectFrom('duplicate_verdicts')
    .select(
      sql<number>`case low_id when ${listingId} then high_id else low_id end`.as('listing_id'),
    )
    .select(['verdict', 'decided_by', 'decided_at'])
    .where((eb) => eb.or([eb('low_id', '=', listingId), eb('high_id', '=', listingId)]));

/**
 * Stores a verdict, and marks both listings for the search for duplicates.
 * @throws ProblemError `listing_not_found` if one of the listings does not exist.
 */
async function storeVerdict(
  db: Kysely<Tables>,
  [lowId, highId]: IdPair,
  { verdict, decidedBy }: { verdict: Verdict; decidedBy: string | null },
): Promise<Date> {
  const { rows } = await sql<{ decided_at: Date }>`
    with stored as (
      insert into duplicate_verdicts (low_id, high_id, verdict, decided_by)
      select low.id, high.id, ${verdict}::text, ${decidedBy}::text
      from property_listings as low, property_listings as high
      where low.id = ${lowId} and high.id = ${highId}
      on conflict (low_id, high_id) do update
        set verdict = excluded.verdict, decided_by = excluded.decided_by, decided_at = now()
      returning low_id, high_id, decided_at),
    marked as (
      insert into duplicate_marks (listing_id)
      select unnest(array[low_id, high_id]) from stored)
    select decided_at from stored`.execute(db);
  const [row] = rows;
  if (row === undefined) throw problem('listing_not_found');
  return row.decided_at;
}

async function removeVerdict(db: Kysely<Tables>, [lowId, highId]: IdPair): Promise<void> {
  await sql`
    with removed as (
      delete from duplicate_verdicts where low_id = ${lowId} and high_id = ${highId}
      returning low_id, high_id)
    insert into duplicate_marks (listing_id)
    select unnest(array[low_id, high_id]) from removed`.execute(db);
}

type IdPair = readonly [lowId: number, highId: number];

/** @throws ProblemError `validation_failed` if both IDs are the same. */
function parsePair(params: { id: string; other_id: string }): IdPair {
  const [id, otherId] = [parseId(params.id), parseId(params.other_id)];
  if (id === otherId) {
    const message = 'must be another listing';
    throw problem('validation_failed', { errors: [{ path: 'params/other_id', message }] });
  }
  return [Math.min(id, otherId), Math.max(id, otherId)];
}

/** Registers the routes by which people decide whether two listings are the same property. Contract 4, Duplicates. */
export function registerVerdictRoutes(app: Server, { db }: { db: Kysely<Tables> }): void {
  const config = { scope: 'admin' } as const;
  const params = Type.Object({ id: idParam, other_id: idParam });
  const path = '/listings/:id/duplicates/:other_id';

  app.put(
    path,
    {
      config,
      schema: {
        tags: ['listings'],
        summary: 'Decide whether two listings are the same property',
        description:
          'The verdict takes precedence over the score, and stays when the listings change. Listings with the verdict ' +
          '`different` never share a group. The duplicates of both listings follow within seconds.',
        params,
        body: verdictBodySchema,
        response: {
          200: verdictSchema,
          ...problemResponses(400, ...CHANGE_REJECTIONS, 'listing_not_found', 413, 415, 422, 503),
        },
      },
    },
    async (request) => {
      const { verdict } = request.body;
      const decidedBy = request.apiKey?.name ?? null;
      const decidedAt = await storeVerdict(db, parsePair(request.params), { verdict, decidedBy });
      const listingId = parseId(request.params.other_id);
      return presentVerdict({
        listing_id: listingId,
        verdict,
        decided_by: decidedBy,
        decided_at: decidedAt,
      });
    },
  );

  app.delete(
    path,
    {
      config,
      schema: {
        tags: ['listings'],
        summary: 'Withdraw the verdict on two listings',
        description: 'The score decides again. Succeeds if there is no verdict.',
        params,
        response: { 204: Type.Null(), ...problemResponses(...CHANGE_REJECTIONS, 422, 503) },
      },
    },
    async (request, reply) => {
      await removeVerdict(db, parsePair(request.params));
      return reply.status(204).send(null);
    },
  );
}
