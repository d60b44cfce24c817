import { chmodSync, fsyncSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { PGlite } from '@electric-sql/pglite';
import { NodeFS } from '@electric-sql/pglite/nodefs';
import { createPgConfig } from '@electric-sql/pglite/node-postgres';
import { vector } from '@electric-sql/pglite-pgvector';
import pg from 'pg';
import { DatabaseError } from './errors.ts';
import type { OnNotify } from './listener.ts';
import { lockFolder } from './lock.ts';
import { types } from './postgres.ts';

/**
 * Opens the embedded database: PostgreSQL compiled to WebAssembly, in this process, through node-postgres.
 * @param dataDir Folder of its files; without one the database is in memory.
 * @param image Initial content of a database in memory, as PGlite dumps it.
 * @throws DatabaseError FOLDER_LOCKED or FOLDER_UNUSABLE, as {@link lockFolder}; DATABASE_UNSUITABLE for damaged files.
 */
export async function openPglite(dataDir?: string, image?: Blob) {
  const lock = dataDir === undefined ? undefined : lockFolder(dataDir);
  try {
    return await open(dataDir, image, () => lock?.release());
  } catch (error) {
    lock?.release();
    throw error;
  }
}

async function open(dataDir: string | undefined, image: Blob | undefined, release: () => void) {
  const folder = dataDir === undefined ? undefined : join(dataDir, 'database');
  if (folder !== undefined) {
    mkdirSync(folder, { recursive: true });
    // PGlite writes world-readable files, among them encrypted tokens and phone numbers.
    chmodSync(folder, 0o700);
  }
  const lite = await create(folder, image);

  // The successor of a failed client has the same backend: it needs a new connection object, and has to end an open
  // transaction and free the names of prepared statements.
  class PgliteClient extends pg.Client {
    constructor(config?: pg.ClientConfig) {
      super(Object.assign({}, config, { connection: createPgConfig(lite).connection }));
    }
  }
  const pool = new pg.Pool({
    max: 1,
    idleTimeoutMillis: 0,
    types,
    Client: PgliteClient,
    onConnect: resetSession,
  });
  pool.on('error', () => undefined);

  return {
    pool,
    listen: async (channel: string, onNotify: OnNotify) => {
      await pool.query(`listen ${pg.escapeIdentifier(channel)}`);
      const stop = lite.onNotification((name, payload) => {
        if (name === channel) onNotify(payload);
      });
      return () => Promise.resolve(stop());
    },
    close: async () => {
      await pool.end();
      await lite.close();
      release();
    },
  };
}

async function resetSession(client: pg.ClientBase): Promise<void> {
  await client.query('rollback; deallocate all');
}

async function create(folder: string | undefined, image: Blob | undefined): Promise<PGlite> {
  try {
    return await PGlite.create({
      ...(folder !== undefined && {
        fs: new DurableFiles(folder),
        startParams: durableParams(PGlite.defaultStartParams),
      }),
      ...(image !== undefined && { loadDataDir: image }),
      extensions: { vector },
    });
  } catch (error) {
    // The messages of a WebAssembly program that cannot go on do not help operators.
    throw new DatabaseError(
      'DATABASE_UNSUITABLE',
      `The embedded database${folder === undefined ? '' : ` in ${folder}`} cannot be opened, its files are damaged: restore a copy of them, or delete the data folder to start with a new one`,
      { cause: error },
    );
  }
}

/** The options with which PGlite starts its program. */
type InitOptions = Parameters<NodeFS['init']>[1];

/** Emscripten's view of Node's file system, whose files have no `fsync`. */
type NodeFileSystem = {
  stream_ops: { fsync: (stream: { nfd: number }) => number };
  /** Converts errors of Node into those of the program. */
  tryFSOperation: (operation: () => void) => void;
};

/**
 * File system of an embedded database whose syncs reach the disk, which PGlite's own only pretends. Committed rows
 * survive a power failure, and the files stay readable.
 */
class DurableFiles extends NodeFS {
  override async init(
    lite: PGlite,
    options: InitOptions,
  ): Promise<{ emscriptenOpts: InitOptions }> {
    const { emscriptenOpts } = await super.init(lite, options);
    const { preRun = [] } = emscriptenOpts;
    return { emscriptenOpts: { ...emscriptenOpts, preRun: [...preRun, syncToDisk] } };
  }
}

function syncToDisk({ FS }: Pick<PGlite['Module'], 'FS'>): void {
  const { NODEFS } = FS.filesystems as unknown as { NODEFS: NodeFileSystem };
  NODEFS.stream_ops.fsync = ({ nfd }) => {
    NODEFS.tryFSOperation(() => fsyncSync(nfd));
    return 0;
  };
}

/** Returns PGlite's parameters without `-F`, which skips every sync, and with the one sync call that it supports. */
function durableParams(defaults: readonly string[]): string[] {
  return [...defaults.filter((parameter) => parameter !== '-F'), '-c', 'wal_sync_method=fsync'];
}
