import { pipeline, type Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createZstdDecompress,
} from 'node:zlib';
import { parseRetryAfter } from '@oselya/kit/retry-after';
import { MEBIBYTE } from '../schemas.ts';
import { type FetchResponse, getFirstHeaderValue, type SafeFetch } from '../safe-fetch/fetch.ts';
import { FetchError } from '../safe-fetch/check-url.ts';
import { ImageError } from './decode.ts';
import { MAX_IMAGE_BYTES, saveTemporary, type TemporaryFile } from './temporary.ts';

/** Limits on image downloads. Contract 4, Images; Specification 001, Limits. */
export const DOWNLOAD_LIMITS = {
  /** Maximum size of an image after decompression, in bytes. */
  maxBytes: MAX_IMAGE_BYTES,
  maxAttempts: 3,
  /** Delay before the second attempt, unless the host requests a longer one. It doubles for each further attempt. */
  retryDelayMs: 500,
  /** Timeout for all attempts for one image. */
  totalMs: 120_000,
  /** Time after which no further download of a listing starts. Later jobs retry the remaining images. */
  listingMs: 300_000,
};

export type DownloadLimits = typeof DOWNLOAD_LIMITS;

/**
 * Creates a function that downloads a URL to a temporary file and hashes it. The function retries network errors, 408,
 * 429 and 5xx, and honours `Retry-After`. It removes the file of a failed download, and throws ImageError if the image
 * is unavailable, `signal.reason`, or local errors such as a full disk.
 * @param options.getFolder Returns the folder for temporary files.
 */
export function createDownloader(options: {
  fetch: SafeFetch;
  getFolder: () => string;
  limits?: Partial<DownloadLimits> | undefined;
}) {
  const { fetch, getFolder } = options;
  const limits = { ...DOWNLOAD_LIMITS, ...options.limits };

  async function attemptDownload(url: string, signal: AbortSignal): Promise<TemporaryFile> {
    const response = await convertErrors(fetch(url, { signal, accept: 'image/*' }), signal);
    try {
      checkHeaders(response, limits.maxBytes);
      return await saveTemporary(getFolder(), readBody(response, signal), (bytes) => {
        if (bytes > limits.maxBytes) throw createSizeError(limits.maxBytes);
      });
    } finally {
      await response.close();
    }
  }

  return async (url: string, signal: AbortSignal): Promise<TemporaryFile> => {
    const endsAt = Date.now() + limits.totalMs;
    const deadlineSignal = AbortSignal.timeout(limits.totalMs);
    const combinedSignal = AbortSignal.any([signal, deadlineSignal]);
    try {
      for (let attempt = 1; ; attempt += 1) {
        let waitMs = limits.retryDelayMs * 2 ** (attempt - 1);
        try {
          return await attemptDownload(url, combinedSignal);
        } catch (error) {
          const isRetryable = error instanceof ImageError && error.retryable;
          if (!isRetryable || attempt >= limits.maxAttempts) throw error;
          if (error.retryAt !== undefined) {
            waitMs = Math.max(waitMs, error.retryAt.getTime() - Date.now());
            if (Date.now() + waitMs >= endsAt) throw error;
          }
        }
        await sleep(waitMs, undefined, { signal: combinedSignal });
      }
    } catch (error) {
      signal.throwIfAborted();
      if (!deadlineSignal.aborted) throw error;
      const message = `The download took longer than ${limits.totalMs / 1000} s`;
      throw new ImageError(message, { retryable: true, cause: error });
    }
  };
}

function checkHeaders({ status, headers }: FetchResponse, maxBytes: number): void {
  if (status !== 200) {
    const retryable = status === 408 || status === 429 || status >= 500;
    const retryDelayMs = parseRetryAfter(getFirstHeaderValue(headers['retry-after']));
    const retryAt =
      retryable && retryDelayMs !== undefined ? new Date(Date.now() + retryDelayMs) : undefined;
    throw new ImageError(`The address responded with status ${status}`, { retryable, retryAt });
  }
  if (Number(getFirstHeaderValue(headers['content-length'])) > maxBytes) {
    throw createSizeError(maxBytes);
  }
}

const createSizeError = (maxBytes: number) =>
  new ImageError(`The image is larger than ${maxBytes / MEBIBYTE} MiB`);

async function* readBody(response: FetchResponse, signal: AbortSignal): AsyncGenerator<Buffer> {
  const chunks = decompress(response)[Symbol.asyncIterator]();
  for (;;) {
    const result = await convertErrors(Promise.resolve(chunks.next()), signal);
    if (result.done === true) return;
    yield result.value;
  }
}

/** Converts network and host errors to ImageError. */
async function convertErrors<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    if (cause instanceof ImageError || signal.aborted) throw cause;
    if (cause instanceof FetchError) {
      throw new ImageError(cause.message, { retryable: cause.retryable, cause });
    }
    const code = cause instanceof Error && 'code' in cause ? cause.code : undefined;
    const reason = typeof code === 'string' ? code : 'the response is not HTTP';
    throw new ImageError(`The image could not be fetched (${reason})`, { retryable: true, cause });
  }
}

const DECODERS = new Map<string, () => NodeJS.ReadWriteStream & Readable>([
  ['gzip', createGunzip],
  ['x-gzip', createGunzip],
  ['deflate', createInflate],
  ['br', createBrotliDecompress],
  ['zstd', createZstdDecompress],
]);

/** Decompresses the body, because some servers ignore `Accept-Encoding: identity`. */
function decompress({ headers, body }: FetchResponse): Readable {
  const encoding = getFirstHeaderValue(headers['content-encoding']).trim().toLowerCase();
  if (encoding === '' || encoding === 'identity') return body;
  const decoder = DECODERS.get(encoding)?.();
  if (decoder === undefined) throw new ImageError('The image has an unknown content encoding');
  // The reader of the decoder receives these errors, so the callback ignores them.
  return pipeline(body, decoder, () => undefined);
}

const HOUR_MS = 3_600_000;

/** Delay before a failed URL of an unchanged payload is retried: less than a day, so that daily payloads retry it. */
const DEFAULT_RETRY_MS = 20 * HOUR_MS;

/** Bounds for the delay that a host requests. */
const MIN_RETRY_MS = 50 * 60_000;
const MAX_RETRY_MS = 30 * 24 * HOUR_MS;

/** Returns the earliest time at which an unchanged payload retries a failed URL; null if never. */
export function getEarliestRetry({ retryable, retryAt }: ImageError): Date | null {
  if (!retryable) return null;
  const now = Date.now();
  const delayMs = retryAt === undefined ? DEFAULT_RETRY_MS : retryAt.getTime() - now;
  return new Date(now + Math.min(Math.max(delayMs, MIN_RETRY_MS), MAX_RETRY_MS));
}
