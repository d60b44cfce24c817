import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Kysely } from 'kysely';
import { createDisk } from '../../src/disk.ts';
import { createImages } from '../../src/images/images.ts';
import { createTemporaryFolder } from '../../src/images/temporary.ts';
import type { ImagesOptions } from '../../src/images/images.ts';
import { openFolder } from '../../src/images/store-folder.ts';
import { createImageStore } from '../../src/images/store.ts';
import type { Tables } from '../../src/tables.ts';
import { createSafeFetch } from '../../src/safe-fetch/fetch.ts';
import { log, noImages } from '../support/pipeline.ts';

/**
 * The pictures of a worker, in a folder that workers share, fetched from this machine; none without a folder.
 */
export async function openPictures({
  db,
  model,
  folder,
}: {
  db: Kysely<Tables>;
  folder: string | undefined;
} & Pick<ImagesOptions, 'model'>) {
  if (folder === undefined) return { images: noImages, close: () => Promise.resolve() };
  await mkdir(folder, { recursive: true });
  const temporary = createTemporaryFolder(join(folder, 'incoming'), fail);
  await temporary.sweep();
  const images = createImages({
    db,
    model,
    store: createImageStore(openFolder(folder, temporary.path), { log }).store,
    storeState: { toOutage: (error) => error },
    temporary: temporary.path,
    disk: createDisk({ folder, minFreeMb: 0 }),
    fetch: createSafeFetch({ allow: ['127.0.0.1'] }),
    log,
  });
  return { images, close: temporary.close };
}

function fail(error: unknown): never {
  throw error;
}
