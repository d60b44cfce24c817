import { chmodSync, fsyncSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { PGlite } from '@electric-sql/pglite';
import { NodeFS } from '@electric-sql/pglite/nodefs';
import { createPgConfig } from '@electric-sql/pglite/node-postgres';
import { vector } from '@electric-sql/pglite-pgvector';
import pg from 'pg';
import { DatabaseError } from './errors.ts';
import type { OnNotify } from './listener.ts';
import { lockFolder } from './folder-lock.ts';
import { typeParsers } from './postgres.ts';

/**
 * Opens the embedded database: PostgreSQL compiled to WebAssembly, used in this process through node-postgres.
 * @param dataDir Folder for the files. Without a folder, the database is in memory.
 * @param image Initial content of an in-memory database: a PGlite dump.
 * @throws DatabaseError FOLDER_LOCKED, FOLDER_UNUSABLE, or DATABASE_UNSUITABLE for damaged files.
 */
export async function openPglite(dataDir?: string, image?: Blob) {
  await using resources = new AsyncDisposableStack();
  let folder: string | undefined;
  if (dataDir !== undefined) {
    const lock = lockFolder(dataDir);
    resources.defer(() => lock.release());
    folder = join(dataDir, 'database');
    mkdirSync(folder, { recursive: true });
    // PGlite creates world-readable files, which contain encrypted tokens and phone numbers.
    chmodSync(folder, 0o700);
  }
  const pglite = await createPglite(folder, image);
  resources.defer(() => pglite.close());

  // All clients share one backend. After a failed client, the next one needs a new connection object, and must end the
  // open transaction and deallocate prepared statements.
  class PgliteClient extends pg.Client {
    constructor(config?: pg.ClientConfig) {
      super(Object.assign({}, config, { connection: createPgConfig(pglite).connection }));
    }
  }
  const pool = new pg.Pool({
    max: 1,
    idleTimeoutMillis: 0,
    types: typeParsers,
    Client: PgliteClient,
    onConnect: async (client) => void (await client.query('rollback; deallocate all')),
  });
  pool.on('error', () => undefined);
  resources.defer(() => pool.end());

  const ownedResources = resources.move();
  return {
    pool,
    listen: async (channel: string, onNotify: OnNotify) => {
      await pool.query(`listen ${pg.escapeIdentifier(channel)}`);
      const stopListening = pglite.onNotification((name, payload) => {
        if (name === channel) onNotify(payload);
      });
      return () => Promise.resolve(stopListening());
    },
    close: () => ownedResources.disposeAsync(),
  };
}

async function createPglite(folder: string | undefined, image: Blob | undefined): Promise<PGlite> {
  try {
    return await PGlite.create({
      ...(folder !== undefined && {
        fs: new DurableFileSystem(folder),
        startParams: createDurableParams(PGlite.defaultStartParams),
      }),
      ...(image !== undefined && { loadDataDir: image }),
      extensions: { vector },
    });
  } catch (error) {
    // The messages of a crashed WebAssembly program do not help operators.
    throw new DatabaseError(
      'DATABASE_UNSUITABLE',
      `The embedded database${folder === undefined ? '' : ` in ${folder}`} cannot be opened, because its files are damaged: restore a copy of the files, or delete the data folder to start with a new database`,
      { cause: error },
    );
  }
}

type InitOptions = Parameters<NodeFS['init']>[1];

/** Emscripten's file system on Node, which lacks `fsync`. */
type NodeFileSystem = {
  stream_ops: { fsync: (stream: { nfd: number }) => number };
  /** Converts Node errors to Emscripten errors. */
  tryFSOperation: (operation: () => void) => void;
};

/** File system that syncs files to disk. Without syncs, a power failure could lose committed rows. */
class DurableFileSystem extends NodeFS {
  override async init(
    pglite: PGlite,
    options: InitOptions,
  ): Promise<{ emscriptenOpts: InitOptions }> {
    const { emscriptenOpts } = await super.init(pglite, options);
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

/** Returns the parameters of PGlite without `-F`, which disables syncs, and with the only supported sync method. */
function createDurableParams(defaults: readonly string[]): string[] {
  return [...defaults.filter((parameter) => parameter !== '-F'), '-c', 'wal_sync_method=fsync'];
}
