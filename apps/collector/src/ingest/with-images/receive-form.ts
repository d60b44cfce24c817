import type { MultipartFile } from '@fastify/multipart';
import type { FastifyRequest } from 'fastify';
import { type Disk, isDiskLow } from '../../disk.ts';
import { problem } from '../../errors.ts';
import { MAX_IMAGE_BYTES, saveTemporary, type UploadedFile } from '../../images/temporary.ts';
import { BODY_LIMIT, MAX_IMAGES, MEBIBYTE } from '../../schemas.ts';
import { cleanText, cutText } from '../../text.ts';
import type { Payload } from '../payload.ts';

/** All that one request may send, in bytes: some ten times what a listing's pictures take. */
export const MAX_FORM_BYTES = 512 * MEBIBYTE;

/** Names are shown to the model and to whoever sent them; file systems know none longer. */
const MAX_NAME = 255;

/**
 * The parser's own limits. Those on files are kept below, where they can be told by name; these stop what
 * hides from that, such as parts without a name.
 */
const PARSER = {
  limits: {
    fileSize: Infinity,
    files: MAX_IMAGES + 2,
    parts: MAX_IMAGES + 10,
    headerPairs: 20,
  },
  // Everything is read as a stream and by its name, whatever type its sender gives it.
  isPartAFile: () => true,
};

/** A form that came whole: its payload, and the files in the order in which they came. */
export type Form = { payload: Payload; files: UploadedFile[] };

/** Where a form goes while it comes, how much it may be, and who is told of its parts. */
export type ReceiveOptions = {
  disk: Disk;
  /** All that the metadata and the files may have together. */
  maxBytes: number;
  /** Gives where temporary files go. */
  temporary: () => string;
  /** Called as soon as the field has come, before the files that follow it are read. */
  readMetadata: (content: Buffer) => Promise<Payload>;
  /** Told of each file, which the caller removes. */
  onFile: (file: UploadedFile) => void;
};

/**
 * Reads a form while it comes: the field `metadata` and the files `images`, in any order, each file into a
 * temporary one. Of a form that is refused the rest is read and forgotten, so that its sender, who may
 * still be sending, gets the answer and not a broken connection.
 * @throws ProblemError `malformed_request`, `body_too_large`, `validation_failed`, `disk_low`, and what
 *   `readMetadata` throws.
 */
export async function receiveForm(request: FastifyRequest, options: ReceiveOptions): Promise<Form> {
  const files: UploadedFile[] = [];
  let payload: Payload | undefined;
  let left = options.maxBytes;

  try {
    for await (const part of orMalformed(request.parts(PARSER))) {
      // Of its two kinds the parser makes files only.
      if (part.type !== 'file') continue;
      const name = part.fieldname ?? '';
      if (name === 'metadata') {
        if (payload !== undefined) throw refused('metadata', 'must be sent once only');
        const content = await readContent(part);
        left -= content.length;
        payload = await options.readMetadata(content);
      } else if (name === 'images') {
        // The parser's types promise a file name, which a field of text does not have.
        const fileName: string | undefined = part.filename;
        const file = await receiveFile(part, fileName ?? '', files.length, left, options);
        options.onFile(file);
        left -= file.bytes;
        if (fileName !== undefined) files.push(file);
        // A browser sends a nameless nothing where no file was chosen.
        else if (file.bytes > 0) throw refused('images', 'must be files, each with a file name');
      } else {
        throw refused(name, 'is unknown: send the field "metadata" and the files "images"');
      }
    }
  } finally {
    request.raw.unpipe().resume();
  }
  if (payload === undefined) {
    throw refused('metadata', 'is missing: send the payload as JSON in a form field of this name');
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
    throw refused('images', `must be at most ${MAX_IMAGES} files: ${label} is one too many`);
  }
  await disk.need();
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

/** A refusal of all that is sent, which `what` names. */
export function formTooLarge(maxBytes: number, what: string): Error {
  return problem('body_too_large', {
    detail: `The request is larger than ${maxBytes / MEBIBYTE} MB, ${what}. Send fewer or smaller pictures.`,
  });
}

function refused(path: string, message: string): Error {
  return problem('validation_failed', { errors: [{ path, message }] });
}

/** What cannot be read as a form is its sender's fault, whatever the parser throws. */
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
