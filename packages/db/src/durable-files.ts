import { fsyncSync } from 'node:fs';
import { type PGlite } from '@electric-sql/pglite';
import { NodeFS } from '@electric-sql/pglite/nodefs';

/** The options with which PGlite starts its program. */
type Options = Parameters<NodeFS['init']>[1];

/** Emscripten's view of Node's file system, in which open files and folders have no `fsync` of their own. */
type NodeFileSystem = {
  stream_ops: { fsync: (stream: { nfd: number }) => number };
  /** Turns the errors of Node into those of the program. */
  tryFSOperation: (operation: () => void) => void;
};

/**
 * The files of an embedded database, of which a sync reaches the disk: PGlite's own lets the database believe
 * so. What is committed is there after a power failure then, and the files can be opened.
 */
export class DurableFiles extends NodeFS {
  override async init(pg: PGlite, options: Options): Promise<{ emscriptenOpts: Options }> {
    const { emscriptenOpts } = await super.init(pg, options);
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

/**
 * How PostgreSQL is started on such files: as PGlite does, but without `-F`, which spares every sync, and by the one
 * system call that its program hands on.
 */
export function durableParams(defaults: readonly string[]): string[] {
  return [...defaults.filter((parameter) => parameter !== '-F'), '-c', 'wal_sync_method=fsync'];
}
