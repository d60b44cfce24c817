import { randomUUID } from 'node:crypto';
import { constants, copyFile, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Disk } from 'flydrive';
import { FSDriver } from 'flydrive/drivers/fs';
import pLimit from 'p-limit';

/** Clones the file where the file system can; the target must not exist. */
const COPY_MODE = constants.COPYFILE_FICLONE | constants.COPYFILE_EXCL;

/**
 * Opens a folder of this machine as a disk.
 * @param temporary Returns a folder on the same file system for files that are not complete yet.
 */
export function openFolder(folder: string, temporary: () => string): Disk {
  return new FolderDisk(new AtomicFolder(folder, temporary));
}

class FolderDisk extends Disk {
  readonly #folder: AtomicFolder;

  constructor(folder: AtomicFolder) {
    super(folder);
    this.#folder = folder;
  }

  override copyFromFs(source: string | URL, key: string): Promise<void> {
    return this.#folder.add(key, (unfinished) => copyFile(source, unfinished, COPY_MODE));
  }
}

/** flydrive writes files in place: a crash would leave half an image under the name of a whole one. */
class AtomicFolder extends FSDriver {
  readonly #folder: string;
  readonly #temporary: () => string;

  constructor(folder: string, temporary: () => string) {
    super({ location: folder, visibility: 'private' });
    this.#folder = folder;
    this.#temporary = temporary;
  }

  override put(key: string, contents: string | Uint8Array): Promise<void> {
    return this.add(key, (unfinished) => writeFile(unfinished, contents, { flag: 'wx' }));
  }

  /** Writes a file elsewhere, and renames it when it is complete. */
  async add(key: string, write: (unfinished: string) => Promise<void>): Promise<void> {
    const unfinished = join(this.#temporary(), randomUUID());
    const target = join(this.#folder, key);
    try {
      await write(unfinished);
      await mkdir(dirname(target), { recursive: true });
      await rename(unfinished, target);
    } catch (error) {
      await rm(unfinished, { force: true });
      throw error;
    }
  }
}

/** The settings of a bucket. See docs/configuration.md, Image store. */
export type BucketSettings = {
  /** The address of a server that speaks S3; undefined for AWS. */
  endpoint: string | undefined;
  region: string;
  bucket: string;
  accessKeyId: string;
  secretAccessKey: string;
  /** Whether keys are at `endpoint/bucket/key` instead of `bucket.endpoint/key`. */
  forcePathStyle: boolean;
};

/** The longest wait for a connection, and for an answer to one request, in milliseconds. */
const TIMEOUTS = { connectionTimeout: 5000, requestTimeout: 60_000 };

/** The longest removal of an object, attempts included: the image's row is locked meanwhile (see cleanup.ts). */
const DELETE_MS = 5000;

/** Attempts of the client, with its backoff, for 503 SlowDown, other 5xx and broken connections. */
const ATTEMPTS = 3;

/** Most images in memory on their way to a bucket. They are no streams, since a failed request is repeated. */
const limitUploads = pLimit(4);

/**
 * Opens a bucket as a disk. The client is large, and loaded only here.
 * @returns The disk, and the function that ends its connections.
 */
export async function openBucket(
  settings: BucketSettings,
): Promise<{ disk: Disk; close: () => void }> {
  const [{ DeleteObjectCommand, S3Client }, { S3Driver }] = await Promise.all([
    import('@aws-sdk/client-s3'),
    import('flydrive/drivers/s3'),
  ]);
  const { endpoint, region, bucket, accessKeyId, secretAccessKey, forcePathStyle } = settings;
  const client = new S3Client({
    ...(endpoint === undefined ? {} : { endpoint }),
    region,
    forcePathStyle,
    credentials: { accessKeyId, secretAccessKey },
    maxAttempts: ATTEMPTS,
    requestHandler: TIMEOUTS,
    // Not all servers know the checksums that the client would add; keys are SHA-256, and signatures cover content.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  });
  class BucketDriver extends S3Driver {
    override async delete(key: string): Promise<void> {
      const command = new DeleteObjectCommand({ Bucket: bucket, Key: key });
      await client.send(command, { abortSignal: AbortSignal.timeout(DELETE_MS) });
    }
  }
  const driver = new BucketDriver({ client, bucket, visibility: 'private', supportsACL: false });
  class ImageBucket extends Disk {
    override copyFromFs(source: string | URL, key: string): Promise<void> {
      return limitUploads(async () => this.put(key, await readFile(source)));
    }
  }
  return { disk: new ImageBucket(driver), close: () => client.destroy() };
}
