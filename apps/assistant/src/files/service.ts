import type { Kysely, Transaction } from 'kysely';
import { lockOwner, type User, type AccessScope, accessScope } from '../access/permissions.ts';
import { recordOthersData } from '../admin/audit.ts';
import { problem } from '../errors.ts';
import { lockSession, requireSession } from '../sessions/index.ts';
import type { Tables } from '../tables.ts';
import { mediaTypeOf } from './media-type.ts';
import {
  countFiles,
  deleteFile,
  type FileInfo,
  type FilePage,
  type FilePart,
  findFile,
  findFilePart,
  listFiles,
  sumOtherFiles,
  writeFile,
} from './repository.ts';

/** The files of sessions under their rules of ownership. */
export type Files = ReturnType<typeof createFiles>;

/** How many files one session may have. */
export const MAX_FILES = 100;

/** How many bytes the files of one user may be, together. Adoption of legacy sessions may pass it. */
const MAX_OWNER_BYTES = 1024 ** 3;

/** A file of a session; the name is as `toFileName` gives it. */
type FileName = { sessionId: string; name: string };

/**
 * What can be done with the files of a session, by whom, and with what is recorded of it: the owner of
 * the session, admins, and for reading who has `svc.files.read_all`. All of it throws
 * `session_not_found` or `session_not_yours`. Specification 000, Ownership rules on session endpoints.
 */
export function createFiles({
  db,
  maxOwnerBytes = MAX_OWNER_BYTES,
}: {
  db: Kysely<Tables>;
  maxOwnerBytes?: number;
}) {
  return {
    /**
     * The files of a session, by their names.
     * @returns At most `limit`.
     */
    async listFiles(user: User, { sessionId, ...page }: FilePage): Promise<FileInfo[]> {
      const reach = accessScope(user, 'svc.files.read_all');
      const { userId: ownerId } = await requireSession(db, { sessionId, reach });
      await recordOthersData(db, 'others_data_read', {
        actorId: user.id,
        ownerId,
        details: { data: 'session_files', session_id: sessionId },
      });
      return listFiles(db, { sessionId, reach, ...page });
    },

    /**
     * The content of a file, and what it is.
     * @throws ProblemError `file_not_found`.
     */
    async readFile(
      user: User,
      { sessionId, name }: FileName,
    ): Promise<{ content: Buffer; mediaType: string }> {
      const file = await noteReading(user, { sessionId, name }, (reach) =>
        findFile(db, { sessionId, name, reach }),
      );
      return { content: file.content, mediaType: file.media_type };
    },

    /**
     * A part of a file, and what the file is; nothing else of it is loaded.
     * @returns The part empty where the file ends before it.
     * @throws ProblemError `file_not_found`.
     */
    async readPart(
      user: User,
      { sessionId, name, ...part }: FileName & FilePart,
    ): Promise<{ part: Buffer; sizeBytes: number; mediaType: string }> {
      const file = await noteReading(user, { sessionId, name }, (reach) =>
        findFilePart(db, { sessionId, name, reach, ...part }),
      );
      return { part: file.part, sizeBytes: file.size, mediaType: file.media_type };
    },

    /** Refuses who may not write into a session; `writeFile` asks again. */
    async checkWrite(user: User, sessionId: string): Promise<void> {
      await requireSession(db, { sessionId, reach: accessScope(user) });
    },

    /**
     * Stores a file, over the one of that name where there is one.
     * @throws ProblemError `too_many_files` where a new one would be, and `too_much_stored` where all
     * files of the session's owner together would be.
     */
    async writeFile(
      user: User,
      { sessionId, name, content }: FileName & { content: Buffer },
    ): Promise<{ file: FileInfo; isNew: boolean }> {
      const reach = accessScope(user);
      const mediaType = await mediaTypeOf(content);
      return db.transaction().execute(async (trx) => {
        const { userId } = await requireSession(trx, { sessionId, reach });
        // What nobody owns yet counts for nobody.
        if (userId !== null) await lockOwner(trx, userId);
        const session = await lockSession(trx, { sessionId, reach });
        // It was deleted since it was looked at.
        if (session === undefined) throw problem('session_not_found');
        const { others, exists } = await countFiles(trx, { sessionId, name });
        if (others >= MAX_FILES) {
          throw problem('too_many_files', {
            detail: `It has ${MAX_FILES}, which is the most. Delete one that is not needed any more, then send this one again.`,
          });
        }
        if (userId !== null) await checkRoom(trx, { userId, sessionId, name, content });
        const file = await writeFile(trx, { sessionId, name, content, mediaType });
        await recordOthersData(trx, 'others_data_changed', {
          actorId: user.id,
          ownerId: session.user_id,
          details: { data: 'session_file', session_id: sessionId, name },
        });
        return { file, isNew: !exists };
      });
    },

    /**
     * Deletes a file.
     * @throws ProblemError `file_not_found`.
     */
    async deleteFile(user: User, { sessionId, name }: FileName): Promise<void> {
      const reach = accessScope(user);
      await db.transaction().execute(async (trx) => {
        const deleted = await deleteFile(trx, { sessionId, name, reach });
        if (deleted === undefined) {
          await requireSession(trx, { sessionId, reach });
          throw problem('file_not_found');
        }
        await recordOthersData(trx, 'others_data_changed', {
          actorId: user.id,
          ownerId: deleted.user_id,
          details: { data: 'session_file', session_id: sessionId, name, deleted: true },
        });
      });
    },
  };

  /**
   * Finds something of a file, and records that another's was read before it is given.
   * @throws ProblemError `file_not_found`.
   */
  async function noteReading<Found extends { user_id: string | null }>(
    user: User,
    { sessionId, name }: FileName,
    find: (reach: AccessScope) => Promise<Found | undefined>,
  ): Promise<Found> {
    const reach = accessScope(user, 'svc.files.read_all');
    const found = await find(reach);
    if (found === undefined) {
      await requireSession(db, { sessionId, reach });
      throw problem('file_not_found');
    }
    await recordOthersData(db, 'others_data_read', {
      actorId: user.id,
      ownerId: found.user_id,
      details: { data: 'session_file', session_id: sessionId, name },
    });
    return found;
  }

  /** @throws ProblemError `too_much_stored` */
  async function checkRoom(
    trx: Transaction<Tables>,
    file: FileName & { userId: string; content: Buffer },
  ): Promise<void> {
    if ((await sumOtherFiles(trx, file)) + file.content.length <= maxOwnerBytes) return;
    throw problem('too_much_stored', {
      detail: `The files of the session's owner may be ${maxOwnerBytes} bytes together. Delete some that are not needed any more, then send this one again.`,
    });
  }
}
