import type { Server } from '@oselya/kit';
import { type Kysely, sql } from 'kysely';
import { Type } from 'typebox';
import { problemResponses } from '../errors.ts';
import { isEnded } from '../queue/statistics.ts';
import { sourceSlugSchema } from '../schemas.ts';
import type { Tables } from '../tables.ts';
import { createAdminRoute } from './payloads.ts';

const DEFAULT_HOURS = 24;
const MAX_HOURS = 7 * 24;

const activityQuerySchema = Type.Object(
  {
    hours: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: MAX_HOURS,
        default: DEFAULT_HOURS,
        description: 'Number of hours, including the current one.',
      }),
    ),
    source_slug: Type.Optional(sourceSlugSchema),
  },
  { additionalProperties: false },
);

const activitySchema = Type.Array(
  Type.Object({
    hour: Type.String({ format: 'date-time', description: 'Beginning of the hour in UTC.' }),
    accepted: Type.Integer({ description: 'Stored payloads that arrived in this hour.' }),
    completed: Type.Integer({ description: 'Payloads whose last processing ended in this hour.' }),
    invalid: Type.Integer(),
    failed: Type.Integer(),
  }),
  {
    description: 'One entry for each hour, oldest first.',
    examples: [
      [{ hour: '2026-05-04T09:00:00.000Z', accepted: 900, completed: 874, invalid: 9, failed: 0 }],
    ],
  },
);

/** Registers `GET /admin/activity`. Contract 4, Operations. */
export function registerActivityRoutes(app: Server, { db }: { db: Kysely<Tables> }): void {
  app.get(
    '/admin/activity',
    createAdminRoute({
      summary: 'Count the accepted and processed payloads of the last hours',
      description:
        'Counts stored payloads: removed ones are missing, and one that was processed again counts in the hour of its last end.',
      querystring: activityQuerySchema,
      response: { 200: activitySchema, ...problemResponses(401, 403, 422, 503) },
    }),
    async ({ query: { hours = DEFAULT_HOURS, source_slug: source } }) =>
      (await countByHour(db, { hours, source })).map(({ hour, ...counts }) => ({
        hour: hour.toISOString(),
        ...counts,
      })),
  );
}

type ActivityRow = Record<'accepted' | 'completed' | 'invalid' | 'failed', number> & { hour: Date };

/** Counts by hour. It reads the payloads that ended since then, by index, and the unfinished ones. */
async function countByHour(
  db: Kysely<Tables>,
  { hours, source }: { hours: number; source: string | undefined },
): Promise<ActivityRow[]> {
  const thisHour = sql`date_trunc('hour', now(), 'UTC')`;
  const firstHour = sql`${thisHour} - ${hours - 1} * interval '1 hour'`;
  const isOfSource = source === undefined ? sql`true` : sql`source_slug = ${source}`;
  const { rows } = await sql<ActivityRow>`
    with counted as materialized (
      select date_trunc('hour', created_at, 'UTC') as accepted_in, status,
        date_trunc('hour', updated_at, 'UTC') as ended_in, count(*) as n
      from raw_data where ${isEnded} and ${isOfSource} and updated_at >= ${firstHour}
      group by 1, 2, 3
      union all
      select date_trunc('hour', created_at, 'UTC'), status, null, count(*)
      from raw_data where status in ('pending', 'processing') and ${isOfSource}
      group by 1, 2),
    event as (
      select accepted_in as hour, 'accepted' as kind, n from counted
      union all select ended_in, status, n from counted)
    select hour, ${sql.join(
      ['accepted', 'completed', 'invalid', 'failed'].map(
        (kind) =>
          sql`coalesce(sum(n) filter (where kind = ${sql.lit(kind)}), 0)::bigint as ${sql.ref(kind)}`,
      ),
    )}
    from generate_series(${firstHour}, ${thisHour}, interval '1 hour') as hour
    left join event using (hour)
    group by hour order by hour`.execute(db);
  return rows;
}
