import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Logger } from '@oselya/kit';
import type { FastifyInstance } from 'fastify';
import { createChangedFiles } from './changed-files.ts';
import { type CheckProfile, listProfileFiles, readProfile, toProfiles } from './load.ts';
import type { Profiles } from './profiles.ts';

/** How often files are looked at; a change is taken at the second look that finds it the same. */
const LOOK_MS = 1000;

/**
 * Reads profiles anew while the server listens: their files are looked at every second, since notifications of a
 * file system miss what network mounts and the links of a Kubernetes config map do. What is wrong is logged once.
 */
export function reloadProfiles(
  app: FastifyInstance,
  options: {
    folder: string;
    profiles: Profiles;
    check: CheckProfile;
    log: Pick<Logger, 'info' | 'error'>;
  },
): void {
  const reload = createReload(options);
  const closing = new AbortController();
  let running: Promise<void> | undefined;
  app.addHook('onListen', (done) => {
    running = repeat(reload, closing.signal);
    done();
  });
  app.addHook('onClose', async () => {
    closing.abort();
    await running;
  });
}

async function repeat(work: () => Promise<void>, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await work();
    await sleep(LOOK_MS, undefined, { signal, ref: false }).catch(() => undefined);
  }
}

/** Makes what looks at the files once, and takes changes that have stayed; it never throws. */
export function createReload({
  folder,
  profiles,
  check,
  log,
}: {
  folder: string;
  profiles: Pick<Profiles, 'folder' | 'replace'>;
  /** As at the start. */
  check?: CheckProfile;
  log: Pick<Logger, 'info' | 'error'>;
}): () => Promise<void> {
  const changedFiles = createChangedFiles((path) => readProfile(path, check));
  let told: readonly string[] = [];

  function tell(faults: readonly string[]): void {
    if (isDeepStrictEqual(faults, told)) return;
    told = faults;
    if (faults.length === 0) log.info('the files of agent profiles are as they should be again');
    else
      log.error({ folder, faults }, 'agent profiles are used as they were before: files are bad');
  }

  return async () => {
    const held = profiles.folder;
    let contents: Awaited<ReturnType<typeof changedFiles>>;
    try {
      contents = await changedFiles(await listProfileFiles(folder));
    } catch (error) {
      // The folder itself: what was read of it stays.
      return tell([error instanceof Error ? error.message : String(error)]);
    }
    const read = contents === undefined ? held : toProfiles(contents, held);
    tell(read.faults.map(({ message }) => message));
    if (isDeepStrictEqual(read, held)) return;
    profiles.replace(read);
    const ids = [...read.loaded.values()].map(({ profile }) => profile.profile_id);
    if (!isDeepStrictEqual(read.loaded, held.loaded)) {
      log.info({ folder, profiles: ids }, 'agent profiles were read anew');
    }
  };
}
