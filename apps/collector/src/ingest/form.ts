import type { MultipartFile } from '@fastify/multipart';
import { promisify } from 'node:util';
import { createJsonParser, ProblemError, type Server } from '@oselya/kit';
import type { FastifyRequest } from 'fastify';
import { type Disk, isDiskLow } from '../free-disk-space.ts';
import { problem } from '../errors.ts';
import { MAX_IMAGE_BYTES, saveTemporary, type UploadedFile } from '../images/temporary.ts';
import { MAX_BODY_BYTES, MAX_IMAGES, MEBIBYTE } from '../schemas.ts';
import { cleanText, truncateText } from '../text.ts';
import { type Payload, requirePayload } from './payload.ts';

export const MAX_FORM_BYTES = 512 * MEBIBYTE;

const MAX_NAME_LENGTH = 255;

/** Parser limits, which also count parts without a name. Named parts have stricter limits. */
const PARSER_OPTIONS = {
  limits: {
    fileSize: Infinity,
    files: MAX_IMAGES + 2,
    parts: MAX_IMAGES + 10,
    headerPairs: 20,
  },
  isPartAFile: () => true,
};

/** Payload of a received form, and its files in the order in which they were sent. */
export type Form = { payload: Payload; files: UploadedFile[] };

type ReceiveOptions = {
  disk: Disk;
  /** Maximum size of the metadata and the files together, in bytes. */
  maxBytes: number;
  /** Returns the folder of temporary files. */
  getTemporaryFolder: () => string;
  /** Parses and checks the field `metadata` before later parts are read. */
  readMetadata: (content: Buffer) => Promise<Payload>;
  /** Called for each temporary file. The caller removes the file. */
  onFile: (file: UploadedFile) => void;
};

/**
 * Receives a form with the field `metadata` and the files `images`, in any order, and stores the files temporarily.
 * Drains the body of a rejected form, so that the client can read the response.
 * @throws ProblemError `malformed_request`, `body_too_large`, `validation_failed`, `disk_low`, and
 *   the errors of `readMetadata`.
 */
export async function receiveForm(request: FastifyRequest, options: ReceiveOptions): Promise<Form> {
  const files: UploadedFile[] = [];
  let payload: Payload | undefined;
  let remainingBytes = options.maxBytes;

  try {
    for await (const part of mapParserErrors(request.parts(PARSER_OPTIONS))) {
      // `isPartAFile` makes every part a file, so this only narrows the type.
      if (part.type !== 'file') continue;
      const name = part.fieldname ?? '';
      if (name === 'metadata') {
        if (payload !== undefined)
          throw createValidationError('metadata', 'must be sent once only');
        const content = await readContent(part);
        remainingBytes -= content.length;
        payload = await options.readMetadata(content);
      } else if (name === 'images') {
        // The parser's types promise a file name, but text fields have none.
        const fileName: string | undefined = part.filename;
        const file = await receiveFile(part, fileName ?? '', files.length, remainingBytes, options);
        options.onFile(file);
        remainingBytes -= file.bytes;
        if (fileName !== undefined) files.push(file);
        // A browser sends an empty part without a file name if no file was chosen.
        else if (file.bytes > 0) {
          throw createValidationError('images', 'must be files, each with a file name');
        }
      } else {
        const message = 'is unknown: send the field "metadata" and the files "images"';
        throw createValidationError(name, message);
      }
    }
  } finally {
    request.raw.unpipe().resume();
  }
  if (payload === undefined) {
    const message = 'is missing: send the payload as JSON in a form field of this name';
    throw createValidationError('metadata', message);
  }
  return { payload, files };
}

async function readContent(part: MultipartFile): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of mapParserErrors<Uint8Array>(part.file)) {
    bytes += chunk.length;
    if (bytes > MAX_BODY_BYTES) {
      throw problem('body_too_large', { detail: 'The field "metadata" is larger than 1 MiB.' });
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

async function receiveFile(
  part: MultipartFile,
  fileName: string,
  index: number,
  remainingBytes: number,
  { disk, getTemporaryFolder, maxBytes }: ReceiveOptions,
): Promise<UploadedFile> {
  const name = truncateText(cleanText(fileName), MAX_NAME_LENGTH);
  const label = JSON.stringify(name);
  if (index === MAX_IMAGES) {
    const message = `must be at most ${MAX_IMAGES} files: ${label} is one too many`;
    throw createValidationError('images', message);
  }
  await disk.requireFree();
  const chunks = mapParserErrors<Uint8Array>(part.file);
  const file = await saveTemporary(getTemporaryFolder(), chunks, (bytes) => {
    if (bytes > MAX_IMAGE_BYTES) {
      throw problem('body_too_large', { detail: `The file ${label} is larger than 50 MiB.` });
    }
    if (bytes > remainingBytes) throw createFormSizeError(maxBytes, `up to the file ${label}`);
  }).catch((error: unknown) => {
    throw isDiskLow(error) ? problem('disk_low', { cause: error }) : error;
  });
  return { ...file, name };
}

/**
 * Creates the error for a form above the size limit.
 * @param location Where the form exceeds the limit, such as `by its Content-Length`.
 */
export function createFormSizeError(maxBytes: number, location: string): Error {
  return problem('body_too_large', {
    detail: `The request is larger than ${maxBytes / MEBIBYTE} MiB, ${location}. Send fewer or smaller images.`,
  });
}

function createValidationError(path: string, message: string): Error {
  return problem('validation_failed', { errors: [{ path, message }] });
}

/** Converts parser errors to client errors. */
async function* mapParserErrors<Value>(values: AsyncIterable<Value>): AsyncGenerator<Value> {
  try {
    yield* values;
  } catch (cause) {
    const isLimit = cause instanceof Error && 'statusCode' in cause && cause.statusCode === 413;
    throw isLimit
      ? problem('body_too_large', { detail: 'The form has too many parts.', cause })
      : problem('malformed_request', {
          detail: 'The body is not well-formed multipart/form-data, or it ended early.',
          cause,
        });
  }
}

/**
 * Creates a parser of the metadata field, which is validated like the body of `POST /ingest`.
 * @returns An async parser that rejects with `malformed_request` or `validation_failed`.
 */
export function createMetadataParser(app: Server) {
  const parse = promisify(createJsonParser(app));

  return async (request: FastifyRequest, content: Buffer): Promise<Payload> => {
    const value = await parse(request, content).catch((cause: unknown) => {
      if (cause instanceof ProblemError) throw cause;
      const detail = 'The field "metadata" is not well-formed JSON.';
      throw problem('malformed_request', { detail, cause });
    });
    return requirePayload(value, 'metadata');
  };
}
