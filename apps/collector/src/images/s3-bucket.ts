import { readFile } from 'node:fs/promises';
import { Disk } from 'flydrive';
import pLimit from 'p-limit';

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
