import { hash, randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { parseJson } from '../json.ts';
import { userFolder } from '../user-folder.ts';

/**
 * One load of a file, from its first record to its last, however often it is interrupted. What is sent again within
 * it is stored once; another load sends everything anew, also what is as it was: the listing may have had another
 * price meanwhile, or have been archived.
 */
export type Load = {
  /** Goes into each idempotency key. */
  id: string;
  /** When it began, where an earlier run was interrupted and this one goes on with it. */
  resumedFrom: Date | undefined;
  /** Whether another run can go on with it where this one is interrupted. */
  isResumable: boolean;
  /** Every record has been sent: whoever gives the file again begins another load. */
  end(): Promise<void>;
};

/** Which load it is. */
export type LoadSpec = {
  collectorUrl: string;
  source: string;
  /** Tells the file as it is now from any other; undefined for what cannot be read twice, such as a pipe. */
  fingerprint: string | undefined;
  /** The id, where the caller decides what is one load. */
  name?: string | undefined;
  /** Begins another load, also where one was interrupted. */
  again?: boolean | undefined;
};

/**
 * So long after its beginning a load can be gone on with. The collector honours a key for 24 hours from when its
 * record was stored (Contract 4, Answers); the rest is for the run that goes on. Past that everything is sent anew.
 */
const RESUMABLE_MS = 20 * 3_600_000;

/** Nobody else need know what was loaded, or when. */
const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;

/** One load that has not ended. */
const recordSchema = Type.Object({
  id: Type.String({ pattern: '^[0-9a-f-]{36}$' }),
  fingerprint: Type.String(),
  /** Milliseconds since the epoch. */
  begun_at: Type.Integer(),
});

/**
 * Begins a load, or goes on with the one of the same file that was interrupted. There is at most one to go on with
 * for a source at a collector: once another file was begun for it, what the first one sent may hold no longer, and
 * all of it is sent again. It is kept in the user's state folder; what is older than it can be of use goes.
 * @param onProblem Told where nothing can be kept: an interrupted load is then sent from its beginning, which
 *   costs time, and changes nothing.
 */
export async function beginLoad(
  spec: LoadSpec,
  { env, onProblem }: { env: NodeJS.ProcessEnv; onProblem: (reason: string) => void },
): Promise<Load> {
  const { collectorUrl, source, fingerprint, name, again = false } = spec;
  const folder = join(userFolder('state', env), 'loads');
  const path = join(folder, `${hash('sha256', JSON.stringify([collectorUrl, source]))}.json`);
  const tell = (error: unknown) =>
    onProblem(`${path}: ${(error as NodeJS.ErrnoException).code ?? String(error)}`);

  const toLoad = (id: string, resumedFrom: Date | undefined, isResumable: boolean): Load => ({
    id,
    resumedFrom,
    isResumable,
    end: () => forget(path, id).catch(tell),
  });

  const wanted = name === undefined ? fingerprint : undefined;
  const kept = again || wanted === undefined ? undefined : await readRecord(path);
  if (kept !== undefined && kept.fingerprint === wanted) {
    return toLoad(kept.id, new Date(kept.begun_at), true);
  }
  const id = name ?? randomUUID();
  try {
    await removeOld(folder);
    if (wanted === undefined) await rm(path, { force: true });
    else await writeRecord(folder, path, { id, fingerprint: wanted, begun_at: Date.now() });
    return toLoad(id, undefined, wanted !== undefined || name !== undefined);
  } catch (error) {
    tell(error);
    return toLoad(id, undefined, name !== undefined);
  }
}

/**
 * Tells a file, as it is now and as it is read, from any other: one that is written anew, or moved there, is another
 * one even where it says the same.
 * @param how All that decides, beside the file, what payloads are made of it.
 * @returns Undefined for what is no file, `-` among it.
 */
export async function fingerprintOf(path: string, how: unknown): Promise<string | undefined> {
  const found =
    path === '-' ? undefined : await stat(path, { bigint: true }).catch(() => undefined);
  if (found === undefined || !found.isFile()) return undefined;
  const { size, mtimeNs, ctimeNs } = found;
  return hash('sha256', JSON.stringify([[size, mtimeNs, ctimeNs].map(String), how]));
}

type LoadRecord = Static<typeof recordSchema>;

/** A load that can be gone on with; undefined too for what a killed run has left of its record. */
async function readRecord(path: string): Promise<LoadRecord | undefined> {
  const value = parseJson(await readFile(path, 'utf8').catch(() => ''));
  return Value.Check(recordSchema, value) && !isOld(value.begun_at) ? value : undefined;
}

async function writeRecord(folder: string, path: string, record: LoadRecord): Promise<void> {
  await mkdir(folder, { recursive: true, mode: FOLDER_MODE });
  await writeFile(path, `${JSON.stringify(record)}\n`, { mode: FILE_MODE });
}

/** A clock that was set back makes nothing young. */
function isOld(begunMs: number): boolean {
  return Math.abs(Date.now() - begunMs) > RESUMABLE_MS;
}

/** Another load may have begun for the source meanwhile, whose record stays. */
async function forget(path: string, id: string): Promise<void> {
  if ((await readRecord(path))?.id === id) await rm(path, { force: true });
}

async function removeOld(folder: string): Promise<void> {
  for (const name of await readdir(folder).catch(() => [])) {
    const path = join(folder, name);
    const found = await stat(path).catch(() => undefined);
    if (found !== undefined && isOld(found.mtimeMs)) await rm(path, { force: true });
  }
}
