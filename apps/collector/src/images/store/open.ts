import type { Logger } from '@oselya/kit';
import type { Config } from '../../config.ts';
import { openBucket } from './bucket.ts';
import { openFolder } from './folder.ts';
import { type StoreDisk, type StoreState, watchDisk } from './outage.ts';
import { createImageStore, type ImageStore } from './store.ts';

/** A store, whether it can be used, and what ends its connections. */
export type OpenStore = { store: ImageStore; state: StoreState; close: () => void };

type StoreConfig = Pick<
  Config,
  | 'IMAGE_STORE'
  | 'S3_ENDPOINT'
  | 'S3_REGION'
  | 'S3_BUCKET'
  | 'S3_ACCESS_KEY_ID'
  | 'S3_SECRET_ACCESS_KEY'
  | 'S3_FORCE_PATH_STYLE'
>;

/**
 * Opens the image store that is configured, and tells the log once when an outage of it begins and when it is over.
 * Contract 1, IMAGE_STORE.
 * @param options.folder Where a store on this machine is.
 * @param options.temporary Gives a folder on the same file system for files that are not complete yet.
 */
export async function openImageStore(
  config: StoreConfig,
  options: { folder: string; temporary: () => string; log: Pick<Logger, 'warn' | 'info'> },
): Promise<OpenStore> {
  const { log } = options;
  const { disk, close } = await openDisk(config, options);
  const watch = watchDisk(disk, {
    onBegin: (error) =>
      log.warn({ err: error }, 'the image store failed: nothing is begun until it can be used'),
    onEnd: (lastedMs) =>
      log.info({ lasted_ms: Math.round(lastedMs) }, 'the image store can be used again'),
  });
  return {
    store: createImageStore(watch.disk),
    state: watch.state,
    close() {
      watch.close();
      close();
    },
  };
}

async function openDisk(
  config: StoreConfig,
  { folder, temporary }: { folder: string; temporary: () => string },
): Promise<{ disk: StoreDisk; close: () => void }> {
  if (config.IMAGE_STORE === 'file') {
    return { disk: openFolder(folder, temporary), close: () => undefined };
  }
  return openBucket({
    endpoint: config.S3_ENDPOINT,
    region: config.S3_REGION,
    bucket: config.S3_BUCKET,
    accessKeyId: config.S3_ACCESS_KEY_ID,
    secretAccessKey: config.S3_SECRET_ACCESS_KEY,
    forcePathStyle: config.S3_FORCE_PATH_STYLE,
  });
}
