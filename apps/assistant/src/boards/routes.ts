import { createPageQuery, paginate, type Server } from '@oselya/kit';
import { type Static, Type } from 'typebox';
import { getSignedInUser } from '../access/guards.ts';
import { problem } from '../errors.ts';
import { listingIdSchema, markStatusSchema, noteSchema } from '../marks/routes.ts';
import { type Position, positionCursors } from '../pages.ts';
import { nullable, okResponse, storableText, timestamp, userIdSchema } from '../schema.ts';
import type { Board, BoardComment, BoardItem, BoardMember, Boards } from './boards.ts';

const PAGE_LIMITS = { limit: 50, maxLimit: 200 };
const MAX_POSITION = 10_000;

const boardExample = {
  id: '2c9f4a56-1f6e-4f5e-8f57-0a1b2c3d4e5f',
  name: 'Для нас двох',
  role: 'owner' as const,
  member_count: 2,
  item_count: 1,
  created_at: '2026-03-02T09:15:00.000Z',
  updated_at: '2026-03-04T17:42:10.000Z',
};

const memberExample = {
  user_id: 'u-1',
  display_name: 'Olena',
  role: 'owner' as const,
  added_at: '2026-03-02T09:15:00.000Z',
};

const itemExample = {
  listing_id: 4211,
  status: 'viewing' as const,
  note: 'Оглядаємо в суботу.',
  added_at: '2026-03-02T09:20:00.000Z',
  comment_count: 3,
  verdicts: [{ user_id: 'u-1', verdict: 'yes' as const, decided_at: '2026-03-04T17:42:10.000Z' }],
};

const commentExample = {
  id: '7d9f4a56-1f6e-4f5e-8f57-0a1b2c3d4e5f',
  user_id: 'u-1',
  display_name: 'Olena',
  text: 'Далеко від школи.',
  created_at: '2026-03-04T17:42:10.000Z',
};

const nameSchema = storableText({ minLength: 1, maxLength: 100 });
const roleSchema = Type.Enum(['owner', 'editor', 'viewer']);
const verdictSchema = Type.Enum(['yes', 'maybe', 'no']);
const displayNameSchema = Type.String({
  description: 'Name of the user, or the email without one; empty for a deleted user.',
});

const boardSchema = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    role: nullable(roleSchema, {
      description: 'Role of the caller; null for an administrator who is no member.',
    }),
    member_count: Type.Integer(),
    item_count: Type.Integer(),
    created_at: timestamp(),
    updated_at: timestamp(),
  },
  { $id: 'Board', examples: [boardExample] },
);

const memberSchema = Type.Object(
  {
    user_id: Type.String(),
    display_name: displayNameSchema,
    role: roleSchema,
    added_at: timestamp(),
  },
  { $id: 'BoardMember', examples: [memberExample] },
);

const itemSchema = Type.Object(
  {
    listing_id: Type.Integer(),
    status: nullable(markStatusSchema),
    note: nullable(Type.String()),
    added_at: timestamp(),
    comment_count: Type.Integer(),
    verdicts: Type.Array(
      Type.Object({ user_id: Type.String(), verdict: verdictSchema, decided_at: timestamp() }),
    ),
  },
  { $id: 'BoardItem', examples: [itemExample] },
);

const commentSchema = Type.Object(
  {
    id: Type.String(),
    user_id: Type.String(),
    display_name: displayNameSchema,
    text: Type.String(),
    created_at: timestamp(),
  },
  { $id: 'BoardComment', examples: [commentExample] },
);

const boardRef = Type.Unsafe<Static<typeof boardSchema>>(Type.Ref('Board'));
const memberRef = Type.Unsafe<Static<typeof memberSchema>>(Type.Ref('BoardMember'));
const itemRef = Type.Unsafe<Static<typeof itemSchema>>(Type.Ref('BoardItem'));
const commentRef = Type.Unsafe<Static<typeof commentSchema>>(Type.Ref('BoardComment'));

const createIdSchema = (description: string) =>
  storableText({ minLength: 1, maxLength: 300, description });

const boardParams = Type.Object({ id: createIdSchema("The board's ID.") });
const memberParams = Type.Object({ ...boardParams.properties, user_id: userIdSchema });
const itemParams = Type.Object({ ...boardParams.properties, listing_id: listingIdSchema });
const commentParams = Type.Object({
  ...itemParams.properties,
  comment_id: createIdSchema("The comment's ID."),
});

const nameBody = Type.Object(
  { name: nameSchema },
  { additionalProperties: false, examples: [{ name: boardExample.name }] },
);

const memberBody = Type.Object(
  {
    email: Type.Optional(storableText({ minLength: 1, maxLength: 320 })),
    user_id: Type.Optional(userIdSchema),
    role: Type.Enum(['editor', 'viewer'], {
      description:
        'Viewers read, decide and comment. Editors also add, change, move and remove listings.',
    }),
  },
  { additionalProperties: false, examples: [{ email: 'taras@example.test', role: 'viewer' }] },
);

const itemBody = Type.Object(
  {
    listing_id: listingIdSchema,
    status: Type.Optional(nullable(markStatusSchema)),
    note: Type.Optional(nullable(noteSchema)),
    position: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: MAX_POSITION,
        description: 'New index of the listing. Without it, a new listing is the last one.',
      }),
    ),
  },
  { additionalProperties: false, examples: [{ listing_id: 4211, position: 0 }] },
);

const verdictBody = Type.Object(
  { verdict: nullable(verdictSchema, { description: 'Null withdraws the verdict.' }) },
  { additionalProperties: false, examples: [{ verdict: 'yes' }] },
);

const commentBody = Type.Object(
  { text: storableText({ minLength: 1, maxLength: 4000 }) },
  { additionalProperties: false, examples: [{ text: commentExample.text }] },
);

const presentBoard = (board: Board): Static<typeof boardSchema> => ({
  ...board,
  created_at: board.created_at.toISOString(),
  updated_at: board.updated_at.toISOString(),
});

const presentMember = (member: BoardMember): Static<typeof memberSchema> => ({
  ...member,
  added_at: member.added_at.toISOString(),
});

const presentItem = (item: BoardItem): Static<typeof itemSchema> => ({
  ...item,
  added_at: item.added_at.toISOString(),
  verdicts: item.verdicts.map((verdict) => ({
    ...verdict,
    decided_at: verdict.decided_at.toISOString(),
  })),
});

const presentComment = (comment: BoardComment): Static<typeof commentSchema> => ({
  ...comment,
  created_at: comment.created_at.toISOString(),
});

const toItemKey = ({ id, listing_id: listingId }: Static<typeof itemParams>) => ({
  boardId: id,
  listingId,
});

const tags = ['boards'];
const access = { permission: 'svc.tools.use' } as const;
const encodeCursor = ({ position }: { position: Position }) => positionCursors.write(position);

/** Registers `/boards`. Contract 6. */
export function registerBoardRoutes(app: Server, boards: Boards): void {
  for (const schema of [boardSchema, memberSchema, itemSchema, commentSchema]) {
    app.addSchema(schema);
  }

  app.get(
    '/boards',
    {
      config: { access, errors: [] },
      schema: {
        tags,
        summary: 'The boards that the user is a member of',
        querystring: Type.Object(createPageQuery(PAGE_LIMITS)),
        response: {
          200: Type.Array(boardRef, {
            description: 'Boards, newest first.',
            examples: [[boardExample]],
          }),
        },
      },
    },
    async (request, reply) => {
      const { limit = PAGE_LIMITS.limit, cursor } = request.query;
      const page = { after: positionCursors.read(cursor), limit: limit + 1 };
      const rows = await boards.list(getSignedInUser(request), page);
      return paginate(rows, { limit, getCursor: encodeCursor, request, reply }).map(
        ({ position: _position, ...board }) => presentBoard(board),
      );
    },
  );

  app.post(
    '/boards',
    {
      config: { access, errors: ['too_many_boards'] },
      schema: {
        tags,
        summary: 'Creates a board',
        body: nameBody,
        response: { 201: { ...boardRef, description: 'The board.' } },
      },
    },
    async (request, reply) => {
      const board = await boards.create(getSignedInUser(request), request.body.name);
      return reply.status(201).send(presentBoard(board));
    },
  );

  app.get(
    '/boards/:id',
    {
      config: { access, errors: ['board_not_found'] },
      schema: {
        tags,
        summary: 'A board with its members and listings',
        params: boardParams,
        response: {
          200: Type.Object(
            {
              ...boardSchema.properties,
              members: Type.Array(memberRef),
              items: Type.Array(itemRef, { description: 'Listings in order.' }),
            },
            {
              description: 'The board.',
              examples: [{ ...boardExample, members: [memberExample], items: [itemExample] }],
            },
          ),
        },
      },
    },
    async (request) => {
      const { members, items, ...board } = await boards.find(
        getSignedInUser(request),
        request.params.id,
      );
      return {
        ...presentBoard(board),
        members: members.map(presentMember),
        items: items.map(presentItem),
      };
    },
  );

  const config = { access, errors: ['board_not_found', 'board_role_missing'] } as const;

  app.patch(
    '/boards/:id',
    {
      config,
      schema: {
        tags,
        summary: 'Renames a board',
        params: boardParams,
        body: nameBody,
        response: { 200: { ...boardRef, description: 'The renamed board.' } },
      },
    },
    async (request) => {
      const user = getSignedInUser(request);
      return presentBoard(await boards.rename(user, request.params.id, request.body.name));
    },
  );

  app.delete(
    '/boards/:id',
    {
      config,
      schema: {
        tags,
        summary: 'Deletes a board for all members',
        params: boardParams,
        response: { 200: okResponse },
      },
    },
    async (request) => {
      await boards.delete(getSignedInUser(request), request.params.id);
      return { ok: true as const };
    },
  );

  app.post(
    '/boards/:id/members',
    {
      config: {
        access,
        errors: [...config.errors, 'user_not_found', 'board_full', 'board_owner_stays'],
      },
      schema: {
        tags,
        summary: 'Adds a member, or changes the role of one',
        params: boardParams,
        body: memberBody,
        response: { 200: { ...memberRef, description: 'The member.' } },
      },
    },
    async (request) => {
      const { email, user_id: userId } = request.body;
      if ((email === undefined) === (userId === undefined)) {
        const message = 'must have either email or user_id';
        throw problem('validation_failed', { errors: [{ path: 'body', message }] });
      }
      const user = getSignedInUser(request);
      return presentMember(await boards.putMember(user, request.params.id, request.body));
    },
  );

  app.delete(
    '/boards/:id/members/:user_id',
    {
      config: { access, errors: [...config.errors, 'member_not_found', 'board_owner_stays'] },
      schema: {
        tags,
        summary: 'Removes a member, or leaves a board',
        description: 'The verdicts of the member are deleted; comments stay.',
        params: memberParams,
        response: { 200: okResponse },
      },
    },
    async (request) => {
      const { id, user_id: userId } = request.params;
      await boards.removeMember(getSignedInUser(request), id, userId);
      return { ok: true as const };
    },
  );

  app.post(
    '/boards/:id/items',
    {
      config: { access, errors: [...config.errors, 'board_full'] },
      schema: {
        tags,
        summary: 'Adds a listing to a board, or changes or moves it',
        description: 'Members that are missing keep their values. Null removes a value.',
        params: boardParams,
        body: itemBody,
        response: { 200: { ...itemRef, description: 'The listing on the board.' } },
      },
    },
    async (request) => {
      const { listing_id: listingId, ...values } = request.body;
      const key = { boardId: request.params.id, listingId };
      return presentItem(await boards.putItem(getSignedInUser(request), key, values));
    },
  );

  const itemErrors = [...config.errors, 'board_item_not_found'] as const;

  app.delete(
    '/boards/:id/items/:listing_id',
    {
      config: { access, errors: itemErrors },
      schema: {
        tags,
        summary: 'Removes a listing with its verdicts and comments',
        params: itemParams,
        response: { 200: okResponse },
      },
    },
    async (request) => {
      await boards.removeItem(getSignedInUser(request), toItemKey(request.params));
      return { ok: true as const };
    },
  );

  app.put(
    '/boards/:id/items/:listing_id/verdict',
    {
      config: { access, errors: [...itemErrors, 'member_not_found'] },
      schema: {
        tags,
        summary: "Sets the user's verdict on a listing",
        params: itemParams,
        body: verdictBody,
        response: { 200: { ...itemRef, description: 'The listing on the board.' } },
      },
    },
    async (request) => {
      const key = toItemKey(request.params);
      const user = getSignedInUser(request);
      return presentItem(await boards.putVerdict(user, key, request.body.verdict));
    },
  );

  app.get(
    '/boards/:id/items/:listing_id/comments',
    {
      config: { access, errors: ['board_not_found', 'board_item_not_found'] },
      schema: {
        tags,
        summary: 'The comments on a listing',
        params: itemParams,
        response: {
          200: Type.Array(commentRef, {
            description: 'All comments, oldest first.',
            examples: [[commentExample]],
          }),
        },
      },
    },
    async (request) => {
      const user = getSignedInUser(request);
      return (await boards.listComments(user, toItemKey(request.params))).map(presentComment);
    },
  );

  app.post(
    '/boards/:id/items/:listing_id/comments',
    {
      config: { access, errors: [...itemErrors, 'board_full'] },
      schema: {
        tags,
        summary: 'Comments on a listing',
        params: itemParams,
        body: commentBody,
        response: { 201: { ...commentRef, description: 'The comment.' } },
      },
    },
    async (request, reply) => {
      const key = toItemKey(request.params);
      const user = getSignedInUser(request);
      const comment = await boards.addComment(user, key, request.body.text);
      return reply.status(201).send(presentComment(comment));
    },
  );

  app.delete(
    '/boards/:id/items/:listing_id/comments/:comment_id',
    {
      config: { access, errors: [...itemErrors, 'comment_not_found'] },
      schema: {
        tags,
        summary: "Deletes a comment: the user's own, or any as the owner of the board",
        params: commentParams,
        response: { 200: okResponse },
      },
    },
    async (request) => {
      const { comment_id: commentId, ...key } = request.params;
      await boards.deleteComment(getSignedInUser(request), toItemKey(key), commentId);
      return { ok: true as const };
    },
  );
}
