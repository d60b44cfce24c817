import type { MultipartFile } from '@fastify/multipart';
import { promisify } from 'node:util';
import { createJsonParser, ProblemError, type Server } from '@oselya/kit';
import type { FastifyRequest } from 'fastify';
import { type Disk, isDiskLow } from '../free-disk-space.ts';
import { problem } from '../errors.ts';
import { MAX_IMAGE_BYTES, saveTemporary, type UploadedFile } from '../images/temporary.ts';
import { BODY_LIMIT, MAX_IMAGES, MEBIBYTE } from '../schemas.ts';
import { cleanText, cutText } from '../text.ts';
import { type Payload, requirePayload } from './payload.ts';

/** The largest request in bytes: some ten times the images of a listing. */
export const MAX_FORM_BYTES = 512 * MEBIBYTE;

/** The longest file name; file systems have none longer. */
const MAX_NAME = 255;

/** The parser's own limits, for parts without a name; the limits of files are applied below, with their names. */
const PARSER = {
  limits: {
    fileSize: Infinity,
    files: MAX_IMAGES + 2,
    parts: MAX_IMAGES + 10,
    headerPairs: 20,
  },
  // Every part is read as a stream, whatever its type.
  isPartAFile: () => true,
};

/** A complete form: its payload, and the files in their order. */
export type Form = { payload: Payload; files: UploadedFile[] };

/** The limits, the folder and the callbacks of `receiveForm`. */
export type ReceiveOptions = {
  disk: Disk;
  /** The most bytes of the metadata and the files together. */
  maxBytes: number;
  /** Returns the folder of temporary files. */
  temporary: () => string;
  /** Called as soon as the field has come, before later files are read. */
  readMetadata: (content: Buffer) => Promise<Payload>;
  /** Called for each file, which the caller removes. */
  onFile: (file: UploadedFile) => void;
};

/**
 * Reads a form while it comes: the field `metadata` and the files `images`, in any order, into temporary files. The rest of
 * a rejected form is read and dropped, so that the client gets the answer instead of a broken connection.
 * @throws ProblemError `malformed_request`, `body_too_large`, `validation_failed`, `disk_low`, and what
 *   `readMetadata` throws.
 */
export async function receiveForm(request: FastifyRequest, options: ReceiveOptions): Promise<Form> {
  const files: UploadedFile[] = [];
  let payload: Payload | undefined;
  let left = options.maxBytes;

  try {
    for await (const part of orMalformed(request.parts(PARSER))) {
      // The parser makes every part a file.
      if (part.type !== 'file') continue;
      const name = part.fieldname ?? '';
      if (name === 'metadata') {
        if (payload !== undefined) throw rejected('metadata', 'must be sent once only');
        const content = await readContent(part);
        left -= content.length;
        payload = await options.readMetadata(content);
      } else if (name === 'images') {
        // The parser's types promise a file name, which a text field does not have.
        const fileName: string | undefined = part.filename;
        const file = await receiveFile(part, fileName ?? '', files.length, left, options);
        options.onFile(file);
        left -= file.bytes;
        if (fileName !== undefined) files.push(file);
        // A browser sends an empty part without a name if no file was chosen.
        else if (file.bytes > 0) throw rejected('images', 'must be files, each with a file name');
      } else {
        throw rejected(name, 'is unknown: send the field "metadata" and the files "images"');
      }
    }
  } finally {
    request.raw.unpipe().resume();
  }
  if (payload === undefined) {
    throw rejected('metadata', 'is missing: send the payload as JSON in a form field of this name');
  }
  return { payload, files };
}

async function readContent(part: MultipartFile): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of orMalformed<Uint8Array>(part.file)) {
    bytes += chunk.length;
    if (bytes > BODY_LIMIT) {
      throw problem('body_too_large', { detail: 'The field "metadata" is larger than 1 MB.' });
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

async function receiveFile(
  part: MultipartFile,
  fileName: string,
  index: number,
  left: number,
  { disk, temporary, maxBytes }: ReceiveOptions,
): Promise<UploadedFile> {
  const name = cutText(cleanText(fileName), MAX_NAME);
  const label = JSON.stringify(name);
  if (index === MAX_IMAGES) {
    throw rejected('images', `must be at most ${MAX_IMAGES} files: ${label} is one too many`);
  }
  await disk.requireFree();
  const chunks = orMalformed<Uint8Array>(part.file);
  const file = await saveTemporary(temporary(), chunks, (bytes) => {
    if (bytes > MAX_IMAGE_BYTES) {
      throw problem('body_too_large', { detail: `The file ${label} is larger than 50 MB.` });
    }
    if (bytes > left) throw formTooLarge(maxBytes, `up to the file ${label}`);
  }).catch((error: unknown) => {
    throw isDiskLow(error) ? problem('disk_low', { cause: error }) : error;
  });
  return { ...file, name };
}

/** Returns the error of a form that is too large; `what` names its size. */
export function formTooLarge(maxBytes: number, what: string): Error {
  return problem('body_too_large', {
    detail: `The request is larger than ${maxBytes / MEBIBYTE} MB, ${what}. Send fewer or smaller images.`,
  });
}

function rejected(path: string, message: string): Error {
  return problem('validation_failed', { errors: [{ path, message }] });
}

/** A form that cannot be parsed is the client's error, whatever the parser throws. */
async function* orMalformed<Value>(values: AsyncIterable<Value>): AsyncGenerator<Value> {
  try {
    yield* values;
  } catch (cause) {
    const isLimit = cause instanceof Error && 'statusCode' in cause && cause.statusCode === 413;
    throw isLimit
      ? problem('body_too_large', { detail: 'The form has too many parts.', cause })
      : problem('malformed_request', {
          detail: 'The body is no well-formed multipart/form-data, or it ended early.',
          cause,
        });
  }
}

/**
 * Creates the parser of the field `metadata`, which reads it as `POST /ingest` reads its body.
 * @returns Rejects with `malformed_request` or `validation_failed`.
 */
export function createReadMetadata(app: Server) {
  const parse = promisify(createJsonParser(app));

  return async (request: FastifyRequest, content: Buffer): Promise<Payload> => {
    const value = await parse(request, content.toString()).catch((cause: unknown) => {
      if (cause instanceof ProblemError) throw cause;
      throw problem('malformed_request', {
        detail: 'The field "metadata" is no well-formed JSON.',
        cause,
      });
    });
    return requirePayload(value, 'metadata');
  };
}
