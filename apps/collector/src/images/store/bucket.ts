import { readFile } from 'node:fs/promises';
import type { Disk } from 'flydrive';
import pLimit from 'p-limit';

/** How to reach a bucket. See docs/configuration.md, Image store. */
export type BucketSettings = {
  /** Of any server that speaks S3; undefined is AWS. */
  endpoint: string | undefined;
  region: string;
  bucket: string;
  accessKeyId: string;
  secretAccessKey: string;
  /** `endpoint/bucket/key` in place of `bucket.endpoint/key`. */
  forcePathStyle: boolean;
};

/** The longest wait for a connection, and for an answer to one request, in milliseconds. */
const TIMEOUTS = { connectionTimeout: 5000, requestTimeout: 60_000 };

/**
 * The longest wait until an object is gone, attempts included: a picture is removed while its row is locked (see
 * cleanup.sql.ts), and what is not gone by then is left to the next clean-up.
 */
const DELETE_MS = 5000;

/** The client's own number, with its backoff: for 503 SlowDown, other 5xx and broken connections. */
const ATTEMPTS = 3;

/**
 * How many pictures this process has in memory on their way to a bucket, of whatever jobs and requests. A
 * request can be made again only while its content is there, so they are no streams.
 */
export const PARALLEL_UPLOADS = 4;

const uploadInTurn = pLimit(PARALLEL_UPLOADS);

/**
 * A bucket as a disk. An object appears whole or not at all. The client is loaded only here: it is large,
 * and whoever keeps pictures in a folder does not need it.
 * @returns The disk, and what ends its connections.
 */
export async function openBucket(
  settings: BucketSettings,
): Promise<{ disk: Disk; close: () => void }> {
  const [{ DeleteObjectCommand, S3Client }, { S3Driver }, { Disk: BaseDisk }] = await Promise.all([
    import('@aws-sdk/client-s3'),
    import('flydrive/drivers/s3'),
    import('flydrive'),
  ]);
  const { endpoint, region, bucket, accessKeyId, secretAccessKey, forcePathStyle } = settings;
  const client = new S3Client({
    ...(endpoint === undefined ? {} : { endpoint }),
    region,
    forcePathStyle,
    credentials: { accessKeyId, secretAccessKey },
    maxAttempts: ATTEMPTS,
    requestHandler: TIMEOUTS,
    // Servers other than AWS do not all know the checksums that the client would add by itself. What is
    // stored is named by its SHA-256, and the signature covers the content.
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
  class PictureBucket extends BaseDisk {
    override copyFromFs(source: string | URL, key: string): Promise<void> {
      // Read within the turn: what waits is on the disk only.
      return uploadInTurn(async () => this.put(key, await readFile(source)));
    }
  }
  return { disk: new PictureBucket(driver), close: () => client.destroy() };
}
