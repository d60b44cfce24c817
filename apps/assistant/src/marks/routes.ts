import { createCursorCodec, createPageQuery, paginate, type Server } from '@oselya/kit';
import type { Kysely } from 'kysely';
import { type Static, Type } from 'typebox';
import { getSignedInUser } from '../access/guards.ts';
import { problem } from '../errors.ts';
import { nullable, okResponse, storableText, timestamp } from '../schema.ts';
import type { Tables } from '../tables.ts';
import { deleteMark, listMarks, type Mark, MARK_STATUSES, putMark } from './marks.ts';

const PAGE_LIMITS = { limit: 100, maxLimit: 1000 };
const MAX_LISTING_IDS = 100;

/** Schema of a listing ID. Fastify converts it from the text of a path. */
export const listingIdSchema = Type.Integer({
  minimum: 1,
  maximum: Number.MAX_SAFE_INTEGER,
  description: "The listing's ID at the collector.",
});

/** Schema of the step of a user with a listing. */
export const markStatusSchema = Type.Enum([...MARK_STATUSES]);

/** Schema of a user's note about a listing. */
export const noteSchema = storableText({ minLength: 1, maxLength: 4000 });

const tagSchema = storableText({ minLength: 1, maxLength: 50 });

/** Schema of a day. PostgreSQL rejects the year 0, which the format accepts. */
const daySchema = Type.String({ format: 'date', pattern: '^[12]' });

const markProperties = {
  status: nullable(markStatusSchema),
  rating: nullable(Type.Integer({ minimum: 1, maximum: 5 })),
  note: nullable(noteSchema),
  tags: Type.Array(tagSchema, { maxItems: 20, uniqueItems: true }),
  hidden: Type.Boolean({ description: 'Whether lists leave the listing out.' }),
  seen: Type.Boolean({ description: 'Whether the user has opened the listing.' }),
  follow_up_on: nullable(daySchema),
};

const markValuesExample = {
  status: 'viewing' as const,
  rating: 4,
  note: 'Спитати про опалення.',
  tags: ['біля парку'],
  hidden: false,
  seen: true,
  follow_up_on: '2026-03-09',
};

const markExample = {
  listing_id: 4211,
  ...markValuesExample,
  created_at: '2026-03-02T09:15:00.000Z',
  updated_at: '2026-03-04T17:42:10.000Z',
};

const markSchema = Type.Object(
  {
    listing_id: Type.Integer(),
    ...markProperties,
    created_at: timestamp(),
    updated_at: timestamp(),
  },
  { $id: 'Mark', examples: [markExample] },
);

const markRef = Type.Unsafe<Static<typeof markSchema>>(Type.Ref('Mark'));

const presentMark = (mark: Mark): Static<typeof markSchema> => ({
  ...mark,
  created_at: mark.created_at.toISOString(),
  updated_at: mark.updated_at.toISOString(),
});

const cursorCodec = createCursorCodec(listingIdSchema);
const markParams = Type.Object({ id: listingIdSchema });
const tags = ['marks'];
// Contract 6: marks belong to listings, which need the permission for tools.
const access = { permission: 'svc.tools.use' } as const;

/** Registers `GET /marks`, and `PUT` and `DELETE /listings/{id}/mark`. Contract 6. */
export function registerMarkRoutes(app: Server, db: Kysely<Tables>): void {
  app.addSchema(markSchema);

  app.get(
    '/marks',
    {
      config: { access, errors: [] },
      schema: {
        tags,
        summary: "The user's marks on listings",
        querystring: Type.Object({
          listing_id: Type.Optional(
            Type.Array(listingIdSchema, {
              maxItems: MAX_LISTING_IDS,
              description: 'Only marks on these listings. Repeat the parameter for several.',
            }),
          ),
          status: Type.Optional(markStatusSchema),
          tag: Type.Optional(tagSchema),
          hidden: Type.Optional(Type.Boolean()),
          follow_up_until: Type.Optional(daySchema),
          ...createPageQuery(PAGE_LIMITS),
        }),
        response: {
          200: Type.Array(markRef, {
            description: 'Marks, by descending listing ID.',
            examples: [[markExample]],
          }),
        },
      },
    },
    async (request, reply) => {
      const { limit = PAGE_LIMITS.limit, cursor, ...query } = request.query;
      const rows = await listMarks(db, {
        userId: getSignedInUser(request).id,
        listingIds: query.listing_id,
        status: query.status,
        tag: query.tag,
        hidden: query.hidden,
        followUpUntil: query.follow_up_until,
        before: cursorCodec.read(cursor),
        limit: limit + 1,
      });
      const getCursor = ({ listing_id: id }: Mark) => cursorCodec.write(id);
      return paginate(rows, { limit, getCursor, request, reply }).map(presentMark);
    },
  );

  app.put(
    '/listings/:id/mark',
    {
      config: { access, errors: ['too_many_marks'] },
      schema: {
        tags,
        summary: 'Marks a listing',
        description: 'Members that are missing keep their values. Null removes a value.',
        params: markParams,
        body: Type.Partial(Type.Object(markProperties), {
          additionalProperties: false,
          minProperties: 1,
          examples: [markValuesExample],
        }),
        response: { 200: { ...markRef, description: 'The mark.' } },
      },
    },
    async (request) => {
      const key = { userId: getSignedInUser(request).id, listingId: request.params.id };
      return presentMark(await putMark(db, key, request.body));
    },
  );

  app.delete(
    '/listings/:id/mark',
    {
      config: { access, errors: ['mark_not_found'] },
      schema: {
        tags,
        summary: 'Removes the mark from a listing',
        params: markParams,
        response: { 200: okResponse },
      },
    },
    async (request) => {
      const key = { userId: getSignedInUser(request).id, listingId: request.params.id };
      if (!(await deleteMark(db, key))) throw problem('mark_not_found');
      return { ok: true as const };
    },
  );
}
