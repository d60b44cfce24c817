import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import {
  access,
  constants,
  copyFile,
  mkdir,
  readFile,
  rename,
  rm,
  writeFile,
} from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import pLimit from 'p-limit';
import type { Config } from '../config.ts';

/** Image folder or bucket. Keys are relative paths. */
export type ImageBackend = {
  exists(key: string): Promise<boolean>;
  put(key: string, content: string | Uint8Array): Promise<void>;
  /** Stores a copy of a local file. */
  putFile(key: string, path: string): Promise<void>;
  read(key: string): Promise<Buffer>;
  openStream(key: string): Promise<Readable>;
  /** Removes an object if it exists. */
  remove(key: string): Promise<void>;
  /** Closes connections. */
  close(): void;
};

/** Returns whether an error, or one of its causes, means that a file or an object does not exist. */
export function isNotFoundError(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if ('code' in error && error.code === 'ENOENT') return true;
  return ['NoSuchKey', 'NotFound'].includes(error.name) || isNotFoundError(error.cause);
}

async function hasObject(operation: Promise<unknown>): Promise<boolean> {
  try {
    await operation;
    return true;
  } catch (error) {
    if (isNotFoundError(error)) return false;
    throw error;
  }
}

/** Copy mode that clones the file if the file system supports it, and fails if the target exists. */
const COPY_MODE = constants.COPYFILE_FICLONE | constants.COPYFILE_EXCL;

/**
 * Opens a local folder as an image backend. Files are written to the temporary folder and then renamed, so that a crash
 * leaves no incomplete image under its final name.
 * @param getTemporaryFolder Returns a folder on the same file system.
 */
export function openLocalFolder(folder: string, getTemporaryFolder: () => string): ImageBackend {
  const getPath = (key: string) => join(folder, key);

  async function writeAtomically(key: string, write: (path: string) => Promise<void>) {
    const temporaryPath = join(getTemporaryFolder(), randomUUID());
    try {
      await write(temporaryPath);
      await mkdir(dirname(getPath(key)), { recursive: true });
      await rename(temporaryPath, getPath(key));
    } catch (error) {
      await rm(temporaryPath, { force: true });
      throw error;
    }
  }

  return {
    exists: (key) => hasObject(access(getPath(key))),
    put: (key, content) => writeAtomically(key, (path) => writeFile(path, content, { flag: 'wx' })),
    putFile: (key, sourcePath) =>
      writeAtomically(key, (path) => copyFile(sourcePath, path, COPY_MODE)),
    read: (key) => readFile(getPath(key)),
    openStream: async (key) => createReadStream(getPath(key)),
    remove: (key) => rm(getPath(key), { force: true }),
    close: () => undefined,
  };
}

const CONNECTION_TIMEOUT_MS = 5000;

/** Timeout for a request or response without progress. */
const IDLE_TIMEOUT_MS = 60_000;

/** Timeout for a deletion with its retries. It is short, because a cleanup locks the image's row meanwhile. */
const DELETE_TIMEOUT_MS = 5000;

/** Maximum number of attempts. The client retries throttling, 5xx, timeouts and broken connections with backoff. */
const MAX_ATTEMPTS = 3;

/** Limits the images in memory on their way to a bucket. A retried request needs a buffer, not a stream. */
const limitUploads = pLimit(4);

/**
 * Opens the configured S3 bucket as an image backend. Contract 1, IMAGE_STORE.
 * @param options.idleTimeoutMs Timeout in milliseconds for a request or response without progress. A slow reader of a
 *   stream can cause it too.
 */
export async function openBucket(
  config: Config,
  { idleTimeoutMs = IDLE_TIMEOUT_MS }: { idleTimeoutMs?: number } = {},
): Promise<ImageBackend> {
  // The client is large, so only a process with a bucket loads it.
  const { DeleteObjectCommand, GetObjectCommand, HeadObjectCommand, PutObjectCommand, S3Client } =
    await import('@aws-sdk/client-s3');
  const { S3_ENDPOINT: endpoint, S3_BUCKET: Bucket } = config;
  const client = new S3Client({
    ...(endpoint !== undefined && { endpoint }),
    region: config.S3_REGION,
    forcePathStyle: config.S3_FORCE_PATH_STYLE,
    credentials: {
      accessKeyId: config.S3_ACCESS_KEY_ID,
      secretAccessKey: config.S3_SECRET_ACCESS_KEY,
    },
    maxAttempts: MAX_ATTEMPTS,
    // The client's `requestTimeout` only logs a warning, so the socket timeout ends idle requests.
    requestHandler: { connectionTimeout: CONNECTION_TIMEOUT_MS, socketTimeout: idleTimeoutMs },
    // Some servers do not support these checksums. The signature of an upload already covers its content.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  });

  async function put(Key: string, Body: string | Uint8Array): Promise<void> {
    await client.send(new PutObjectCommand({ Bucket, Key, Body }));
  }

  async function openStream(Key: string): Promise<Readable> {
    const { Body } = await client.send(new GetObjectCommand({ Bucket, Key }));
    if (!(Body instanceof Readable)) throw new Error('The bucket sent no body');
    return Body;
  }

  return {
    exists: (Key) => hasObject(client.send(new HeadObjectCommand({ Bucket, Key }))),
    put,
    putFile: (key, path) => limitUploads(async () => put(key, await readFile(path))),
    read: async (key) => buffer(await openStream(key)),
    openStream,
    async remove(Key) {
      const abortSignal = AbortSignal.timeout(DELETE_TIMEOUT_MS);
      await client.send(new DeleteObjectCommand({ Bucket, Key }), { abortSignal });
    },
    close: () => client.destroy(),
  };
}
