import type { Config } from '../../config.ts';
import { openBucket } from './bucket.ts';
import { openFolder } from './folder.ts';
import { createImageStore, type ImageStore } from './store.ts';

/** A store, and what ends its connections. */
export type OpenStore = { store: ImageStore; close: () => void };

/**
 * Opens the image store that is configured. Contract 1, IMAGE_STORE.
 * @param options.folder Where a store on this machine is.
 * @param options.temporary Gives a folder on the same file system for files that are not complete yet.
 */
export async function openImageStore(
  config: Pick<
    Config,
    | 'IMAGE_STORE'
    | 'S3_ENDPOINT'
    | 'S3_REGION'
    | 'S3_BUCKET'
    | 'S3_ACCESS_KEY_ID'
    | 'S3_SECRET_ACCESS_KEY'
    | 'S3_FORCE_PATH_STYLE'
  >,
  { folder, temporary }: { folder: string; temporary: () => string },
): Promise<OpenStore> {
  if (config.IMAGE_STORE === 'file') {
    return { store: createImageStore(openFolder(folder, temporary)), close: () => undefined };
  }
  const { disk, close } = await openBucket({
    endpoint: config.S3_ENDPOINT,
    region: config.S3_REGION,
    bucket: config.S3_BUCKET,
    accessKeyId: config.S3_ACCESS_KEY_ID,
    secretAccessKey: config.S3_SECRET_ACCESS_KEY,
    forcePathStyle: config.S3_FORCE_PATH_STYLE,
  });
  return { store: createImageStore(disk), close };
}
