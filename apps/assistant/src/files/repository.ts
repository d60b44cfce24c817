import { hash } from 'node:crypto';
import { type Kysely, sql, type Transaction } from 'kysely';
import type { AccessScope } from '../access/permissions.ts';
import { isOwnerWithin, isSessionWithin } from '../sessions/index.ts';
import type { Tables } from '../tables.ts';
import { UNKNOWN_TYPE } from './media-type.ts';

/** What a file is, without its content. */
export type FileInfo = {
  name: string;
  size_bytes: number;
  /** Of the content, in hex. */
  sha256: string;
  /** By the content. */
  media_type: string;
  created_at: Date;
  updated_at: Date;
};

/** Which file, and who asks for it. The name is as `toFileName` gives it. */
export type FileKey = { sessionId: string; name: string; reach: AccessScope };

/** Which bytes of a file. */
export type FilePart = { from: number; bytes: number };

/** Which files of which session. */
export type FilePage = { sessionId: string; after?: string | undefined; limit: number };

const mediaType = sql<string>`coalesce(session_files.media_type, ${UNKNOWN_TYPE})`.as('media_type');

const infoColumns = [
  'name',
  'size_bytes',
  'sha256',
  mediaType,
  'session_files.created_at',
  'session_files.updated_at',
] as const;

/**
 * The files of a session within reach, by their names.
 * @param after The name that the page before ended with.
 * @returns At most `limit`.
 */
export function listFiles(
  db: Kysely<Tables>,
  { sessionId, reach, after, limit }: FilePage & { reach: AccessScope },
): Promise<FileInfo[]> {
  let query = db
    .selectFrom('session_files')
    .select(infoColumns)
    .where('session_id', '=', sessionId)
    .where(isSessionWithin(reach, 'session_files.session_id'))
    .orderBy('name')
    .limit(limit);
  if (after !== undefined) query = query.where('name', '>', after);
  return query.execute();
}

/** A file of a session within reach, and whose session it is; nothing where there is none. */
export function findFile(
  db: Kysely<Tables>,
  { sessionId, name, reach }: FileKey,
): Promise<{ content: Buffer; media_type: string; user_id: string | null } | undefined> {
  return db
    .selectFrom('session_files')
    .innerJoin('conversation_sessions', 'conversation_sessions.id', 'session_files.session_id')
    .select(['session_files.content', mediaType, 'conversation_sessions.user_id'])
    .where('session_files.session_id', '=', sessionId)
    .where('session_files.name', '=', name)
    .where(isOwnerWithin(reach))
    .executeTakeFirst();
}

/**
 * A part of a file of a session within reach, so that no more of it than that is held in memory.
 * @param from The byte that it begins with.
 * @param bytes How many it has at most.
 * @returns With how many bytes the whole is, and whose session it is; nothing where there is no such file.
 */
export function findFilePart(
  db: Kysely<Tables>,
  { sessionId, name, reach, from, bytes }: FileKey & FilePart,
): Promise<{ part: Buffer; size: number; media_type: string; user_id: string | null } | undefined> {
  return db
    .selectFrom('session_files')
    .innerJoin('conversation_sessions', 'conversation_sessions.id', 'session_files.session_id')
    .select([
      // SQL counts bytes from 1.
      sql<Buffer>`substring(content from ${from + 1}::integer for ${bytes}::integer)`.as('part'),
      sql<number>`octet_length(content)`.as('size'),
      mediaType,
      'conversation_sessions.user_id',
    ])
    .where('session_files.session_id', '=', sessionId)
    .where('session_files.name', '=', name)
    .where(isOwnerWithin(reach))
    .executeTakeFirst();
}

/** How many files of other names a session has, and whether it has one of this name. */
export async function countFiles(
  trx: Transaction<Tables>,
  { sessionId, name }: Omit<FileKey, 'reach'>,
): Promise<{ others: number; exists: boolean }> {
  const { all, same } = await trx
    .selectFrom('session_files')
    .select(({ fn }) => [
      fn.countAll<number>().as('all'),
      fn.countAll<number>().filterWhere('name', '=', name).as('same'),
    ])
    .where('session_id', '=', sessionId)
    .executeTakeFirstOrThrow();
  return { others: all - same, exists: same > 0 };
}

/** How many bytes the files of a user's sessions are together, without one that is to be replaced. */
export async function sumOtherFiles(
  trx: Transaction<Tables>,
  { userId, sessionId, name }: Omit<FileKey, 'reach'> & { userId: string },
): Promise<number> {
  const { bytes } = await trx
    .selectFrom('session_files')
    .innerJoin('conversation_sessions', 'conversation_sessions.id', 'session_files.session_id')
    .select(sql<number>`coalesce(sum(size_bytes), 0)`.as('bytes'))
    .where('user_id', '=', userId)
    .where(sql<boolean>`(session_files.session_id, session_files.name) <> (${sessionId}, ${name})`)
    .executeTakeFirstOrThrow();
  return bytes;
}

/** Stores a file, over the one of that name where there is one. */
export function writeFile(
  trx: Transaction<Tables>,
  file: { sessionId: string; name: string; content: Buffer; mediaType: string },
): Promise<FileInfo> {
  const { sessionId: session_id, name, content, mediaType: media_type } = file;
  const values = { size_bytes: content.length, sha256: hash('sha256', content), content };
  return trx
    .insertInto('session_files')
    .values({ session_id, name, media_type, ...values })
    .onConflict((conflict) =>
      conflict.columns(['session_id', 'name']).doUpdateSet((eb) => ({
        size_bytes: eb.ref('excluded.size_bytes'),
        sha256: eb.ref('excluded.sha256'),
        content: eb.ref('excluded.content'),
        media_type: eb.ref('excluded.media_type'),
        updated_at: sql<Date>`now()`,
      })),
    )
    .returning(infoColumns)
    .executeTakeFirstOrThrow();
}

/** Deletes a file of a session within reach, and tells whose session it is where there was one. */
export function deleteFile(
  db: Kysely<Tables>,
  { sessionId, name, reach }: FileKey,
): Promise<{ user_id: string | null } | undefined> {
  return db
    .deleteFrom('session_files')
    .using('conversation_sessions')
    .where('session_files.session_id', '=', sessionId)
    .where('session_files.name', '=', name)
    .whereRef('conversation_sessions.id', '=', 'session_files.session_id')
    .where(isOwnerWithin(reach))
    .returning('conversation_sessions.user_id')
    .executeTakeFirst();
}
