import {
  createCursorCodec,
  describeErrors,
  createPageQuery,
  type Server,
  paginate,
} from '@oselya/kit';
import { create as contentDisposition } from 'content-disposition';
import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import { getSignedInUser } from '../access/guards.ts';
import { problem } from '../errors.ts';
import { limitPerUser, limitTransfers } from '../limits.ts';
import { okResponse, storableText, timestamp } from '../schema.ts';
import { sessionParams } from '../conversations/schemas.ts';
import { type FileInfo, type Files, MAX_FILES, parseFileName } from './files.ts';

/** Maximum file size. Each transfer holds its whole file in memory. */
const MAX_FILE_BYTES = 10 * 1024 * 1024;

const MAX_TRANSFERS = 16;

/** Maximum number of concurrent transfers per user and process: as many as a browser's connections to one host. */
const MAX_TRANSFERS_PER_USER = 6;

const nameCursorCodec = createCursorCodec(storableText({ maxLength: 1024 }));

/** Binary content has no JSON schema. */
const binarySchema = Type.Unsafe<Buffer>(Type.Unknown());

const fileParams = Type.Object({
  ...sessionParams.properties,
  name: Type.String({
    description:
      'One path segment, percent-encoded: no `/`, `\\`, control characters, dots or spaces at its ends, or names that Windows reserves; at most 200 bytes of UTF-8.',
  }),
});

const fileProperties = {
  name: Type.String({ description: 'The name in Unicode normalization form C.' }),
  size_bytes: Type.Integer(),
  sha256: Type.String({ description: 'SHA-256 of the content, in hex.' }),
  media_type: Type.String({ description: 'The media type, detected from the content.' }),
  updated_at: timestamp(),
};

const fileExample = {
  name: 'план квартири.pdf',
  size_bytes: 48_213,
  sha256: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
  media_type: 'application/pdf',
  updated_at: '2026-03-04T17:42:10.000Z',
};

const fileSchema = Type.Object(fileProperties, { examples: [fileExample] });

function presentFile(file: FileInfo): Static<typeof fileSchema> {
  const { name, size_bytes, sha256, media_type } = file;
  return { name, size_bytes, sha256, media_type, updated_at: file.updated_at.toISOString() };
}

const FILE_PATH = '/sessions/:id/files/:name';
const tags = ['sessions'];
const access = 'signed-in';
const sessionErrors = ['session_not_yours', 'session_not_found'] as const;

/** Registers `/sessions/{id}/files`. Specification 000, Ownership rules on session endpoints; Contract 3. */
export async function registerFileRoutes(
  app: Server,
  files: Files,
  { maxTransfers = MAX_TRANSFERS } = {},
): Promise<void> {
  const createTransferLimitError = () =>
    problem('unavailable', {
      detail: `${MAX_TRANSFERS_PER_USER} of your files are being transferred, which is the maximum. Wait until one has finished, then try again.`,
      headers: { 'retry-after': '2' },
    });
  const transferLimits = [
    limitPerUser(MAX_TRANSFERS_PER_USER, createTransferLimitError),
    limitTransfers(maxTransfers, 'files'),
  ];

  app.get(
    '/sessions/:id/files',
    {
      config: { access, errors: sessionErrors },
      schema: {
        tags,
        summary: 'The files of a session',
        params: sessionParams,
        querystring: Type.Object(createPageQuery({ limit: MAX_FILES, maxLimit: MAX_FILES })),
        response: {
          200: Type.Array(Type.Object({ ...fileProperties, created_at: timestamp() }), {
            description: 'Files, sorted by name.',
            examples: [[{ ...fileExample, created_at: '2026-03-02T09:15:00.000Z' }]],
          }),
        },
      },
    },
    async (request, reply) => {
      const { limit = MAX_FILES, cursor } = request.query;
      const page = {
        sessionId: request.params.id,
        after: nameCursorCodec.read(cursor),
        limit: limit + 1,
      };
      const rows = await files.listFiles(getSignedInUser(request), page);
      const encodeCursor = ({ name }: FileInfo) => nameCursorCodec.write(name);
      return paginate(rows, { limit, getCursor: encodeCursor, request, reply }).map((file) => ({
        ...presentFile(file),
        created_at: file.created_at.toISOString(),
      }));
    },
  );

  app.get(
    FILE_PATH,
    {
      config: { access, errors: [...sessionErrors, 'file_not_found', 'unavailable'] },
      onRequest: transferLimits,
      schema: {
        tags,
        summary: 'Downloads a file of a session',
        params: fileParams,
        response: {
          200: {
            description: 'The file, as an attachment.',
            content: { '*/*': { schema: binarySchema } },
          },
        },
      },
    },
    async (request, reply) => {
      const name = parseFileName(request.params.name);
      const key = { sessionId: request.params.id, name };
      const { content, media_type } = await files.readFile(getSignedInUser(request), key);
      // Prevents a browser from running the file as a page of this origin, and a cache from storing it.
      return reply
        .headers({
          'content-disposition': contentDisposition(name),
          'content-security-policy': "default-src 'none'; sandbox",
          'x-content-type-options': 'nosniff',
          'cache-control': 'private, no-store',
        })
        .type(media_type)
        .send(content);
    },
  );

  app.delete(
    FILE_PATH,
    {
      config: { access, errors: [...sessionErrors, 'file_not_found'] },
      schema: {
        tags,
        summary: 'Deletes a file of a session',
        params: fileParams,
        response: { 200: okResponse },
      },
    },
    async (request) => {
      const key = { sessionId: request.params.id, name: parseFileName(request.params.name) };
      await files.deleteFile(getSignedInUser(request), key);
      return { ok: true as const };
    },
  );

  // This scope accepts bodies of any content type as bytes.
  await app.register((uploads, _options, ready) => {
    const scope: Server = uploads;
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) =>
      done(null, body),
    );
    scope.put(
      FILE_PATH,
      {
        config: {
          access,
          errors: [...sessionErrors, 'too_many_files', 'too_much_stored', 'unavailable'],
        },
        bodyLimit: MAX_FILE_BYTES,
        onRequest: [(request) => checkUploadPath(request, files), ...transferLimits],
        schema: {
          tags,
          summary: 'Stores a file of a session, or replaces it',
          description:
            'The body is the file: any content type, up to 10 MiB. A session has at most 100 files, and the files of its owner have at most 1 GiB together.',
          params: fileParams,
          body: { content: { 'application/octet-stream': { schema: binarySchema } } },
          response: {
            200: { ...fileSchema, description: 'The file replaced an earlier file of that name.' },
            201: { ...fileSchema, description: 'The file was created.' },
          },
        },
      },
      async (request, reply) => {
        const name = parseFileName(request.params.name);
        // A request without a body is not parsed, and stores an empty file.
        const content = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
        const upload = { sessionId: request.params.id, name, content };
        const { file, isNew } = await files.writeFile(getSignedInUser(request), upload);
        return reply.status(isNew ? 201 : 200).send(presentFile(file));
      },
    );
    ready();
  });
}

/**
 * Rejects an upload to an invalid path or an inaccessible session before its body is read. Fastify validates the path
 * only after the body.
 * @throws ProblemError `validation_failed`, `session_not_found` or `session_not_yours`
 */
async function checkUploadPath(
  request: FastifyRequest<{ Params: Static<typeof fileParams> }>,
  files: Files,
): Promise<void> {
  const validateParams = request.getValidationFunction('params');
  if (validateParams?.(request.params) === false) {
    const errors = describeErrors('params', validateParams.errors ?? []);
    throw problem('validation_failed', { errors });
  }
  parseFileName(request.params.name);
  await files.checkWrite(getSignedInUser(request), request.params.id);
}
