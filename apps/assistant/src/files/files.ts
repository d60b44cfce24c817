import { isUtf8 } from 'node:buffer';
import { hash } from 'node:crypto';
import { fileTypeFromBuffer } from 'file-type';
import { type Kysely, sql, type Transaction } from 'kysely';
import { type AccessScope, accessScope, lockOwner, type User } from '../access/permissions.ts';
import { recordOthersData } from '../admin/audit.ts';
import { problem } from '../errors.ts';
import {
  whereOwnerInScope,
  whereSessionInScope,
  lockSession,
  requireSession,
} from '../conversations/session-rows.ts';
import type { Tables } from '../tables.ts';

export const MAX_FILES = 100;

/** Maximum total file size per user. Files of assigned legacy sessions may exceed it. */
const MAX_OWNER_BYTES = 1024 ** 3;

const DEFAULT_MEDIA_TYPE = 'application/octet-stream';

/** Media type of all text files, because browsers execute some other text types. */
export const TEXT_TYPE = 'text/plain; charset=utf-8';

export type FileInfo = {
  name: string;
  size_bytes: number;
  sha256: string;
  media_type: string;
  created_at: Date;
  updated_at: Date;
};

/** Key of a file, with a name that `parseFileName` has checked. */
type FileKey = { sessionId: string; name: string };

export type Files = ReturnType<typeof createFileService>;

/**
 * Creates the session file operations for owners, admins, and readers with `svc.files.read_all`.
 * Access to the files of other users is recorded. All operations throw ProblemError `session_not_found` or
 * `session_not_yours`. Specification 000, Ownership rules on session endpoints.
 */
export function createFileService({
  db,
  maxOwnerBytes = MAX_OWNER_BYTES,
}: {
  db: Kysely<Tables>;
  maxOwnerBytes?: number;
}) {
  return {
    /** Lists at most `limit` files of a session by name. */
    async listFiles(user: User, { sessionId, ...page }: FilePage): Promise<FileInfo[]> {
      const scope = accessScope(user, 'svc.files.read_all');
      const { userId: ownerId } = await requireSession(db, { sessionId, scope });
      const details = { data: 'session_files', session_id: sessionId };
      await recordOthersData(db, 'others_data_read', { actorId: user.id, ownerId, details });
      return listFiles(db, { sessionId, scope, ...page });
    },

    /** Returns the content of a file. @throws ProblemError `file_not_found` */
    readFile: (user: User, key: FileKey): Promise<{ content: Buffer; media_type: string }> =>
      readAndRecord(user, key, (scope) => findFile(db, { ...key, scope })),

    /**
     * Reads up to `bytes` bytes of a file, starting at byte `from`.
     * @throws ProblemError `file_not_found`
     */
    readPart: (
      user: User,
      { from, bytes, ...key }: FileKey & { from: number; bytes: number },
    ): Promise<{ part: Buffer; size_bytes: number; media_type: string }> =>
      readAndRecord(user, key, (scope) =>
        selectFile(db, { ...key, scope })
          .select([
            // SQL counts bytes from 1.
            sql<Buffer>`substring(content from ${from + 1}::integer for ${bytes}::integer)`.as(
              'part',
            ),
            sql<number>`octet_length(content)`.as('size_bytes'),
          ])
          .executeTakeFirst(),
      ),

    /** Checks that a user may write files to a session. `writeFile` repeats the check. */
    async checkWrite(user: User, sessionId: string): Promise<void> {
      await requireSession(db, { sessionId, scope: accessScope(user) });
    },

    /**
     * Stores a file, which replaces a file of the same name.
     * @throws ProblemError `too_many_files` for a new file, `too_much_stored`
     */
    async writeFile(
      user: User,
      { content, ...key }: FileKey & { content: Buffer },
    ): Promise<{ file: FileInfo; isNew: boolean }> {
      const { sessionId } = key;
      const scope = accessScope(user);
      const media_type = await detectMediaType(content);
      return db.transaction().execute(async (trx) => {
        const { userId } = await requireSession(trx, { sessionId, scope });
        if (userId !== null) await lockOwner(trx, userId);
        const session = await lockSession(trx, { sessionId, scope });
        if (session === undefined) throw problem('session_not_found');
        const isNew = await checkLimits(trx, { ...key, userId }, content.length);
        const values = {
          size_bytes: content.length,
          sha256: hash('sha256', content),
          content,
          media_type,
        };
        const file = await trx
          .insertInto('session_files')
          .values({ session_id: sessionId, name: key.name, ...values })
          .onConflict((conflict) =>
            conflict
              .columns(['session_id', 'name'])
              .doUpdateSet({ ...values, updated_at: sql<Date>`now()` }),
          )
          .returning(fileInfoColumns)
          .executeTakeFirstOrThrow();
        await recordAccess(trx, 'others_data_changed', { user, ownerId: session.user_id, key });
        return { file, isNew };
      });
    },

    /** Deletes a file. @throws ProblemError `file_not_found` */
    async deleteFile(user: User, key: FileKey): Promise<void> {
      const { sessionId, name } = key;
      await db.transaction().execute(async (trx) => {
        const { userId } = await requireSession(trx, { sessionId, scope: accessScope(user) });
        const { numDeletedRows } = await trx
          .deleteFrom('session_files')
          .where('session_id', '=', sessionId)
          .where('name', '=', name)
          .executeTakeFirstOrThrow();
        if (numDeletedRows === 0n) throw problem('file_not_found');
        const access = { user, ownerId: userId, key, deleted: true as const };
        await recordAccess(trx, 'others_data_changed', access);
      });
    },
  };

  async function readAndRecord<File extends { user_id: string | null }>(
    user: User,
    key: FileKey,
    findInScope: (scope: AccessScope) => Promise<File | undefined>,
  ): Promise<File> {
    const scope = accessScope(user, 'svc.files.read_all');
    const file = await findInScope(scope);
    if (file === undefined) {
      await requireSession(db, { sessionId: key.sessionId, scope });
      throw problem('file_not_found');
    }
    await recordAccess(db, 'others_data_read', { user, ownerId: file.user_id, key });
    return file;
  }

  /**
   * Checks the limits for a file to store, and returns whether its name is new.
   * @throws ProblemError `too_many_files`, `too_much_stored`
   */
  async function checkLimits(
    trx: Transaction<Tables>,
    { userId, sessionId, name }: FileKey & { userId: string | null },
    bytes: number,
  ): Promise<boolean> {
    const counts = await trx
      .selectFrom('session_files')
      .select(({ fn }) => [
        fn.countAll<number>().as('count'),
        fn.countAll<number>().filterWhere('name', '=', name).as('sameName'),
      ])
      .where('session_id', '=', sessionId)
      .executeTakeFirstOrThrow();
    if (counts.count - counts.sameName >= MAX_FILES) {
      throw problem('too_many_files', {
        detail: `It has ${MAX_FILES}, which is the maximum. Delete a file that you no longer need, then send the new file again.`,
      });
    }
    const isNew = counts.sameName === 0;
    // A session without an owner has no byte limit.
    if (userId === null) return isNew;
    const { storedBytes } = await trx
      .selectFrom('session_files')
      .innerJoin('conversation_sessions', 'conversation_sessions.id', 'session_files.session_id')
      .select(sql<number>`coalesce(sum(size_bytes), 0)`.as('storedBytes'))
      .where('user_id', '=', userId)
      .where(
        sql<boolean>`(session_files.session_id, session_files.name) <> (${sessionId}, ${name})`,
      )
      .executeTakeFirstOrThrow();
    if (storedBytes + bytes <= maxOwnerBytes) return isNew;
    throw problem('too_much_stored', {
      detail: `The files of the session's owner may have ${maxOwnerBytes} bytes together. Delete files that you no longer need, then send the new file again.`,
    });
  }
}

function recordAccess(
  db: Kysely<Tables>,
  action: 'others_data_read' | 'others_data_changed',
  access: { user: User; ownerId: string | null; key: FileKey; deleted?: true },
): Promise<void> {
  const { user, ownerId, key, ...extraDetails } = access;
  const details = {
    data: 'session_file',
    session_id: key.sessionId,
    name: key.name,
    ...extraDetails,
  };
  return recordOthersData(db, action, { actorId: user.id, ownerId, details });
}

const mediaTypeColumn = sql<string>`coalesce(session_files.media_type, ${DEFAULT_MEDIA_TYPE})`.as(
  'media_type',
);

const fileInfoColumns = [
  'name',
  'size_bytes',
  'sha256',
  mediaTypeColumn,
  'session_files.created_at',
  'session_files.updated_at',
] as const;

/** Query for a page of files, ordered by name. `after` is the last name of the previous page. */
type FilePage = { sessionId: string; after?: string | undefined; limit: number };

/** Lists at most `limit` files of a session in an access scope by name. */
export function listFiles(
  db: Kysely<Tables>,
  { sessionId, scope, after, limit }: FilePage & { scope: AccessScope },
): Promise<FileInfo[]> {
  let query = db
    .selectFrom('session_files')
    .select(fileInfoColumns)
    .where('session_id', '=', sessionId)
    .where(whereSessionInScope(scope, 'session_files.session_id'))
    .orderBy('name')
    .limit(limit);
  if (after !== undefined) query = query.where('name', '>', after);
  return query.execute();
}

/** Finds a file of a session in an access scope, with the owner of the session. */
export function findFile(
  db: Kysely<Tables>,
  key: FileKey & { scope: AccessScope },
): Promise<{ content: Buffer; media_type: string; user_id: string | null } | undefined> {
  return selectFile(db, key).select('session_files.content').executeTakeFirst();
}

function selectFile(
  db: Kysely<Tables>,
  { sessionId, name, scope }: FileKey & { scope: AccessScope },
) {
  return db
    .selectFrom('session_files')
    .innerJoin('conversation_sessions', 'conversation_sessions.id', 'session_files.session_id')
    .select([mediaTypeColumn, 'conversation_sessions.user_id'])
    .where('session_files.session_id', '=', sessionId)
    .where('session_files.name', '=', name)
    .where(whereOwnerInScope(scope));
}

/** Determines the media type of a file from its content alone. */
export async function detectMediaType(content: Uint8Array): Promise<string> {
  const fileType = await fileTypeFromBuffer(content);
  const isMarkup = fileType !== undefined && /xml|html/.test(fileType.mime);
  if (fileType !== undefined && !isMarkup) return fileType.mime;
  return isUtf8(content) && !content.includes(0) ? TEXT_TYPE : DEFAULT_MEDIA_TYPE;
}

/** Maximum length of a name, in bytes of UTF-8. Most file systems accept 255 bytes. */
const MAX_NAME_BYTES = 200;

/** Device names that Windows reserves, with any extension. */
const RESERVED_NAME_PATTERN = /^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])\s*(\.|$)/i;

/** Control characters, line separators, and bidirectional controls, which can make "gpj.exe" look like "exe.jpg". */
const UNPRINTABLE_CHARACTER_PATTERN =
  /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u;

const NAME_RULES: readonly [isBroken: (name: string) => boolean, rule: string][] = [
  [(name) => /[/\\]/.test(name), 'must not contain / or \\'],
  [(name) => UNPRINTABLE_CHARACTER_PATTERN.test(name), 'must not contain control characters'],
  [
    (name) => name === '' || /^[\s.]|[\s.]$/u.test(name),
    'must not be empty, and neither start nor end with a dot or a space',
  ],
  [(name) => RESERVED_NAME_PATTERN.test(name), 'must not be a name that Windows reserves'],
  [
    (name) => Buffer.byteLength(name) > MAX_NAME_BYTES,
    `must be at most ${MAX_NAME_BYTES} bytes of UTF-8`,
  ],
];

/**
 * Normalizes a file name (NFC), and checks that it is one path segment that common file systems accept. Contract 3.
 * @throws ProblemError `validation_failed` with the broken rules.
 */
export function parseFileName(text: string): string {
  const name = text.normalize('NFC');
  const errors = NAME_RULES.filter(([isBroken]) => isBroken(name)).map(([, message]) => ({
    path: 'params/name',
    message,
  }));
  if (errors.length > 0) throw problem('validation_failed', { errors });
  return name;
}
