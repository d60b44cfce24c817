import { retryConflicts } from '@oselya/db';
import { type Kysely, sql, type Transaction } from 'kysely';
import { lockOwner, type User } from '../access/permissions.ts';
import { recordOthersData } from '../admin/audit.ts';
import { problem } from '../errors.ts';
import type { MarkValues } from '../marks/marks.ts';
import { buildTimeOrder, type Position } from '../pages.ts';
import type { BoardRole, BoardVerdict, Tables } from '../tables.ts';

/** Maximum number of boards that a user owns. */
const MAX_BOARDS = 50;
/** Maximum numbers of rows of a board, and of comments on one listing. */
const MAX_MEMBERS = 50;
const MAX_ITEMS = 200;
const MAX_COMMENTS = 200;

const ROLE_RANKS: Record<BoardRole, number> = { viewer: 0, editor: 1, owner: 2 };

/** Board as a member sees it. `role` is null for an admin who is no member. */
export type Board = {
  id: string;
  name: string;
  role: BoardRole | null;
  member_count: number;
  item_count: number;
  created_at: Date;
  updated_at: Date;
};

export type BoardMember = {
  user_id: string;
  display_name: string;
  role: BoardRole;
  added_at: Date;
};

export type BoardItem = Pick<MarkValues, 'status' | 'note'> & {
  listing_id: number;
  added_at: Date;
  comment_count: number;
  verdicts: { user_id: string; verdict: BoardVerdict; decided_at: Date }[];
};

export type BoardComment = {
  id: string;
  user_id: string;
  display_name: string;
  text: string;
  created_at: Date;
};

/** User to add to a board, by ID or by email. */
type Invitee = { user_id?: string; email?: string };

type ItemKey = { boardId: string; listingId: number };

type BoardAccess = { board: Board; ownerId: string | null };

export type Boards = ReturnType<typeof createBoardService>;

/**
 * Creates the operations on boards. A board does not exist for users who are no members, except for admins: they have
 * the rights of its owner, and their access is recorded. All operations on a board throw ProblemError `board_not_found`
 * and `board_role_missing`.
 */
export function createBoardService({ db }: { db: Kysely<Tables> }) {
  return {
    /** Lists at most `limit` boards of the user with their positions, newest first. */
    list: (user: User, page: { after: Position | undefined; limit: number }) =>
      listBoards(db, { userId: user.id, ...page }),

    /** Creates a board that the user owns. @throws ProblemError `too_many_boards` */
    create: (user: User, name: string): Promise<Board> =>
      db.transaction().execute(async (trx) => {
        await lockOwner(trx, user.id);
        const { count } = await trx
          .selectFrom('board_members')
          .select(({ fn }) => fn.countAll<number>().as('count'))
          .where('user_id', '=', user.id)
          .where('role', '=', 'owner')
          .executeTakeFirstOrThrow();
        if (count >= MAX_BOARDS) throw problem('too_many_boards');
        const { id } = await trx
          .insertInto('boards')
          .values({ name })
          .returning('id')
          .executeTakeFirstOrThrow();
        const owner = { board_id: id, user_id: user.id, role: 'owner' } as const;
        await trx.insertInto('board_members').values(owner).execute();
        return (await openBoard(trx, user, id, 'owner')).board;
      }),

    /** Returns a board with its members and its items in order. */
    async find(user: User, id: string) {
      const access = await openBoard(db, user, id, 'viewer');
      await recordAccess(db, 'others_data_read', user, access);
      const members = await listMembers(db, id);
      return { ...access.board, members, items: await listItems(db, id) };
    },

    /** Renames a board. */
    rename: (user: User, id: string, name: string): Promise<Board> =>
      changeBoard(user, { id, role: 'owner' }, async (trx) => {
        await trx.updateTable('boards').set({ name }).where('id', '=', id).execute();
        return (await openBoard(trx, user, id, 'owner')).board;
      }),

    /** Deletes a board with its contents, for all members. */
    async delete(user: User, id: string): Promise<void> {
      await changeBoard(user, { id, role: 'owner' }, (trx) =>
        trx.deleteFrom('boards').where('id', '=', id).execute(),
      );
    },

    /**
     * Adds a member, or changes the role of one.
     * @throws ProblemError `user_not_found`, `board_full`, or `board_owner_stays`
     */
    putMember: (
      user: User,
      id: string,
      { role, ...invitee }: Invitee & { role: Exclude<BoardRole, 'owner'> },
    ): Promise<BoardMember> =>
      changeBoard(user, { id, role: 'owner' }, async (trx) => {
        const userId = await findUser(trx, invitee);
        const members = await listMembers(trx, id);
        const member = members.find(({ user_id }) => user_id === userId);
        if (member?.role === 'owner') throw problem('board_owner_stays');
        if (member === undefined && members.length >= MAX_MEMBERS) {
          throw createLimitError(`${MAX_MEMBERS} members`);
        }
        await trx
          .insertInto('board_members')
          .values({ board_id: id, user_id: userId, role })
          .onConflict((conflict) => conflict.columns(['board_id', 'user_id']).doUpdateSet({ role }))
          .execute();
        const newMembers = await listMembers(trx, id);
        const newMember = newMembers.find(({ user_id }) => user_id === userId);
        if (newMember === undefined) throw problem('user_not_found');
        return newMember;
      }),

    /**
     * Removes a member with their verdicts. Members can remove themselves.
     * @throws ProblemError `member_not_found` or `board_owner_stays`
     */
    async removeMember(user: User, id: string, userId: string): Promise<void> {
      const role = userId === user.id ? 'viewer' : 'owner';
      await changeBoard(user, { id, role }, async (trx) => {
        const members = await listMembers(trx, id);
        const member = members.find(({ user_id }) => user_id === userId);
        if (member === undefined) throw problem('member_not_found');
        if (member.role === 'owner') throw problem('board_owner_stays');
        await trx
          .deleteFrom('board_members')
          .where('board_id', '=', id)
          .where('user_id', '=', userId)
          .execute();
      });
    },

    /**
     * Adds a listing, or changes its item. `position` is its new index; without it a new item is the last one.
     * @throws ProblemError `board_full`
     */
    putItem: (
      user: User,
      { boardId, listingId }: ItemKey,
      { position, ...values }: Partial<Pick<BoardItem, 'status' | 'note'>> & { position?: number },
    ): Promise<BoardItem> =>
      changeBoard(user, { id: boardId, role: 'editor' }, async (trx) => {
        const items = await listItems(trx, boardId);
        const ids = items.map(({ listing_id }) => listing_id);
        const oldIndex = ids.indexOf(listingId);
        if (oldIndex < 0 && ids.length >= MAX_ITEMS)
          throw createLimitError(`${MAX_ITEMS} listings`);
        await trx
          .insertInto('board_items')
          .values({ board_id: boardId, listing_id: listingId, position: 0, ...values })
          .onConflict((conflict) =>
            conflict.columns(['board_id', 'listing_id']).doUpdateSet({ position: 0, ...values }),
          )
          .execute();
        const index = position ?? (oldIndex < 0 ? ids.length : oldIndex);
        const orderedIds = ids.filter((id) => id !== listingId).toSpliced(index, 0, listingId);
        await sql`
          update board_items set position = ordered.position
          from unnest(${orderedIds}::bigint[]) with ordinality as ordered (listing_id, position)
          where board_id = ${boardId} and board_items.listing_id = ordered.listing_id`.execute(trx);
        return requireItem(trx, { boardId, listingId });
      }),

    /** Removes a listing with its verdicts and comments. @throws ProblemError `board_item_not_found` */
    async removeItem(user: User, { boardId, listingId }: ItemKey): Promise<void> {
      await changeBoard(user, { id: boardId, role: 'editor' }, async (trx) => {
        await requireItem(trx, { boardId, listingId });
        await trx
          .deleteFrom('board_items')
          .where('board_id', '=', boardId)
          .where('listing_id', '=', listingId)
          .execute();
      });
    },

    /**
     * Sets or withdraws the verdict of a member on a listing.
     * @throws ProblemError `board_item_not_found`, or `member_not_found` for an admin who is no member
     */
    putVerdict: (user: User, key: ItemKey, verdict: BoardVerdict | null): Promise<BoardItem> =>
      changeBoard(user, { id: key.boardId, role: 'viewer' }, async (trx, { board }) => {
        await requireItem(trx, key);
        if (board.role === null) throw problem('member_not_found');
        const row = { board_id: key.boardId, listing_id: key.listingId, user_id: user.id };
        await trx
          .deleteFrom('board_verdicts')
          .where((where) => where.and(row))
          .execute();
        if (verdict !== null) {
          await trx
            .insertInto('board_verdicts')
            .values({ ...row, verdict })
            .execute();
        }
        return requireItem(trx, key);
      }),

    /** Lists the comments on a listing, oldest first. @throws ProblemError `board_item_not_found` */
    async listComments(user: User, key: ItemKey): Promise<BoardComment[]> {
      const access = await openBoard(db, user, key.boardId, 'viewer');
      await recordAccess(db, 'others_data_read', user, access);
      await requireItem(db, key);
      return selectComments(db, key).execute();
    },

    /** Adds a comment on a listing. @throws ProblemError `board_item_not_found` or `board_full` */
    addComment: (user: User, key: ItemKey, text: string): Promise<BoardComment> =>
      changeBoard(user, { id: key.boardId, role: 'viewer' }, async (trx) => {
        const { comment_count: count } = await requireItem(trx, key);
        if (count >= MAX_COMMENTS) throw createLimitError(`${MAX_COMMENTS} comments on a listing`);
        const { id } = await trx
          .insertInto('board_comments')
          .values({ board_id: key.boardId, listing_id: key.listingId, user_id: user.id, text })
          .returning('id')
          .executeTakeFirstOrThrow();
        return selectComments(trx, key)
          .where('board_comments.id', '=', id)
          .executeTakeFirstOrThrow();
      }),

    /** Deletes a comment for its author or the owner of the board. @throws ProblemError `comment_not_found` */
    async deleteComment(user: User, key: ItemKey, commentId: string): Promise<void> {
      await changeBoard(user, { id: key.boardId, role: 'viewer' }, async (trx, { board }) => {
        const comment = await selectComments(trx, key)
          .where('board_comments.id', '=', commentId)
          .executeTakeFirst();
        if (comment === undefined) throw problem('comment_not_found');
        if (comment.user_id !== user.id) checkRole(board, 'owner');
        await trx.deleteFrom('board_comments').where('id', '=', commentId).execute();
      });
    },
  };

  /** Locks a board, checks the role of the user, and makes a change, which is recorded if an admin is no member. */
  function changeBoard<Result>(
    user: User,
    { id, role }: { id: string; role: BoardRole },
    change: (trx: Transaction<Tables>, access: BoardAccess) => Promise<Result>,
  ): Promise<Result> {
    const checkAndChange = async (trx: Transaction<Tables>) => {
      await trx.selectFrom('boards').select('id').where('id', '=', id).forUpdate().execute();
      const access = await openBoard(trx, user, id, role);
      await trx
        .updateTable('boards')
        .set({ updated_at: sql<Date>`now()` })
        .where('id', '=', id)
        .execute();
      const result = await change(trx, access);
      await recordAccess(trx, 'others_data_changed', user, access);
      return result;
    };
    // The deletion of a user's data locks boards and members in no fixed order, so it can deadlock with a change.
    return retryConflicts(() => db.transaction().execute(checkAndChange));
  }
}

/** Returns a board, and checks the role of the user in it. @throws ProblemError */
async function openBoard(
  db: Kysely<Tables>,
  user: User,
  id: string,
  role: BoardRole,
): Promise<BoardAccess> {
  const row = await selectBoards(db, user.id)
    .select(
      sql<string | null>`(select user_id from board_members
      where board_id = boards.id and role = 'owner')`.as('ownerId'),
    )
    .where('boards.id', '=', id)
    .executeTakeFirst();
  if (row === undefined || (row.role === null && user.role !== 'admin')) {
    throw problem('board_not_found');
  }
  const { ownerId, ...board } = row;
  checkRole(board, role);
  return { board, ownerId };
}

/** Checks that a member has at least a role. An admin who is no member has all roles. */
function checkRole({ role }: Pick<Board, 'role'>, required: BoardRole): void {
  if (role === null || ROLE_RANKS[role] >= ROLE_RANKS[required]) return;
  throw problem('board_role_missing', {
    detail: `This needs the role ${required} on the board. You have the role ${role}.`,
  });
}

async function recordAccess(
  db: Kysely<Tables>,
  action: 'others_data_read' | 'others_data_changed',
  user: User,
  { board, ownerId }: BoardAccess,
): Promise<void> {
  if (board.role !== null) return;
  const details = { data: 'board', board_id: board.id };
  await recordOthersData(db, action, { actorId: user.id, ownerId, details });
}

const createLimitError = (limit: string) =>
  problem('board_full', { detail: `A board has at most ${limit}. Remove one, then try again.` });

/** Selects boards with the role of a user. */
const selectBoards = (db: Kysely<Tables>, userId: string) =>
  db
    .selectFrom('boards')
    .leftJoin('board_members', (join) =>
      join.onRef('board_id', '=', 'boards.id').on('user_id', '=', userId),
    )
    .select(['boards.id', 'name', 'role', 'created_at', 'updated_at'])
    .select([
      sql<number>`(select count(*) from board_members where board_id = boards.id)`.as(
        'member_count',
      ),
      sql<number>`(select count(*) from board_items where board_id = boards.id)`.as('item_count'),
    ]);

const boardOrder = buildTimeOrder('created_at');

/** Lists at most `limit` boards of a member with their positions, newest first. */
export async function listBoards(
  db: Kysely<Tables>,
  { userId, after, limit }: { userId: string; after?: Position | undefined; limit: number },
): Promise<(Board & { position: Position })[]> {
  let query = db
    .selectFrom(selectBoards(db, userId).where('role', 'is not', null).as('boards'))
    .selectAll()
    .select(boardOrder.microseconds.as('created_us'))
    .orderBy(boardOrder.time, 'desc')
    .orderBy('id', 'desc')
    .limit(limit);
  if (after !== undefined) query = query.where(boardOrder.isAfter(after));
  const rows = await query.execute();
  return rows.map(({ created_us, ...board }) => ({ ...board, position: [created_us, board.id] }));
}

/** SQL expression of the name of a joined user. */
const displayName = sql<string>`coalesce(nullif(display_name, ''), email, '')`.as('display_name');

function listMembers(db: Kysely<Tables>, boardId: string): Promise<BoardMember[]> {
  return db
    .selectFrom('board_members')
    .leftJoin('svc_users', 'svc_users.id', 'user_id')
    .select(['user_id', displayName, 'board_members.role', 'added_at'])
    .where('board_id', '=', boardId)
    .orderBy('added_at')
    .orderBy('user_id')
    .execute();
}

/** Returns the ID of a user who has signed in. @throws ProblemError `user_not_found` */
async function findUser(db: Kysely<Tables>, { user_id: id, email = '' }: Invitee): Promise<string> {
  const user = await db
    .selectFrom('svc_users')
    .select('id')
    .where(
      id === undefined ? sql<boolean>`lower(email) = lower(${email})` : sql<boolean>`id = ${id}`,
    )
    // Providers may assign an address to another person. The current one has the newer row.
    .orderBy('updated_at', 'desc')
    .executeTakeFirst();
  if (user === undefined) {
    throw problem('user_not_found', {
      detail: 'No user with this email or ID has signed in here.',
    });
  }
  return user.id;
}

/** Lists the items of a board in order, or only the item of one listing. */
export async function listItems(
  db: Kysely<Tables>,
  boardId: string,
  listingId?: number,
): Promise<BoardItem[]> {
  const whereListing = sql<boolean>`${listingId ?? null}::bigint is null or listing_id = ${listingId ?? null}`;
  const items = await db
    .selectFrom('board_items')
    .select(['listing_id', sql<MarkValues['status']>`status`.as('status'), 'note', 'added_at'])
    .select(
      sql<number>`(select count(*) from board_comments as comments
        where comments.board_id = board_items.board_id
          and comments.listing_id = board_items.listing_id)`.as('comment_count'),
    )
    .where('board_id', '=', boardId)
    .where(sql<boolean>`(${whereListing})`)
    .orderBy('position')
    .execute();
  const verdicts = await db
    .selectFrom('board_verdicts')
    .select(['listing_id', 'user_id', 'verdict', 'decided_at'])
    .where('board_id', '=', boardId)
    .where(sql<boolean>`(${whereListing})`)
    .orderBy('decided_at')
    .execute();
  const verdictsByListing = Map.groupBy(verdicts, ({ listing_id }) => listing_id);
  return items.map((item) => ({
    ...item,
    verdicts: (verdictsByListing.get(item.listing_id) ?? []).map(
      ({ listing_id: _listingId, ...verdict }) => verdict,
    ),
  }));
}

async function requireItem(
  db: Kysely<Tables>,
  { boardId, listingId }: ItemKey,
): Promise<BoardItem> {
  const [item] = await listItems(db, boardId, listingId);
  if (item === undefined) throw problem('board_item_not_found');
  return item;
}

const selectComments = (db: Kysely<Tables>, { boardId, listingId }: ItemKey) =>
  db
    .selectFrom('board_comments')
    .leftJoin('svc_users', 'svc_users.id', 'user_id')
    .select(['board_comments.id', 'user_id', displayName, 'text', 'board_comments.created_at'])
    .where('board_id', '=', boardId)
    .where('listing_id', '=', listingId)
    .orderBy('board_comments.created_at')
    .orderBy('board_comments.id');

/** Lists at most `limit` comments of a user on all boards, ordered by ID. */
export function listCommentsOfUser(
  db: Kysely<Tables>,
  { userId, after = '', limit }: { userId: string; after?: string | undefined; limit: number },
) {
  return db
    .selectFrom('board_comments')
    .selectAll()
    .where('user_id', '=', userId)
    .where('id', '>', after)
    .orderBy('id')
    .limit(limit)
    .execute();
}

/**
 * Deletes a user's boards for all members, their memberships with verdicts, and their comments.
 * @returns The numbers of deleted and left boards, and of deleted comments.
 */
export async function deleteBoards(
  trx: Transaction<Tables>,
  userId: string,
): Promise<{ boards: number; board_comments: number }> {
  const comments = await trx
    .deleteFrom('board_comments')
    .where('user_id', '=', userId)
    .executeTakeFirstOrThrow();
  const ownBoards = await trx
    .deleteFrom('boards')
    .where(sql<boolean>`id in (select board_id from board_members
      where user_id = ${userId} and role = 'owner')`)
    .executeTakeFirstOrThrow();
  const memberships = await trx
    .deleteFrom('board_members')
    .where('user_id', '=', userId)
    .executeTakeFirstOrThrow();
  return {
    boards: Number(ownBoards.numDeletedRows + memberships.numDeletedRows),
    board_comments: Number(comments.numDeletedRows),
  };
}
