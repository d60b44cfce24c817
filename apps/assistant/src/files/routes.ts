import { cursors, describeErrors, type Server, toPage } from '@oselya/kit';
import { create as contentDisposition } from 'content-disposition';
import type { FastifyRequest, onRequestHookHandler } from 'fastify';
import { type Static, Type } from 'typebox';
import { guardRefusals, signedIn } from '../access/guards.ts';
import { limitPerUser, limitTransfers } from '../limits.ts';
import { problem, problemAnswers } from '../errors.ts';
import { okAnswer, storableText } from '../schema.ts';
import { sessionParams } from '../sessions/index.ts';
import { toFileName } from './file-name.ts';
import {
  fileParams,
  filesAnswer,
  FILES_PAGE,
  filesQuery,
  presentFile,
  presentStored,
  storedFile,
} from './schemas.ts';
import type { Files } from './service.ts';

/** The largest file. It is in memory while it is stored, and while it is sent. */
export const MAX_FILE_BYTES = 10 * 1024 * 1024;

/** How many files may come or go at once in one process. */
const MAX_TRANSFERS = 16;

/** How many of them may be one user's: as many as a browser opens to one host at once. */
const MAX_TRANSFERS_PER_USER = 6;

const PATH = '/sessions/:id/files/:name';

/** Where a page of files ended: the last name. */
const names = cursors(storableText({ maxLength: 1024 }));

/** Bytes have no JSON schema. */
const bytes = Type.Unsafe<Buffer>(Type.Unknown());

const tags = ['sessions'];
const config = { access: 'signed-in' } as const;
const refusals = [...guardRefusals, 'session_not_yours', 'session_not_found', 422] as const;

/** `/sessions/{id}/files`. Specification 000, Ownership rules on session endpoints; Contract 3. */
export async function fileRoutes(
  app: Server,
  files: Files,
  { maxTransfers = MAX_TRANSFERS } = {},
): Promise<void> {
  const transfer = [
    limitPerUser(MAX_TRANSFERS_PER_USER, () =>
      problem('unavailable', {
        detail: `${MAX_TRANSFERS_PER_USER} files of yours are on their way, which is the most at once. Wait until one has come or gone, then try again.`,
        headers: { 'retry-after': '2' },
      }),
    ),
    limitTransfers(maxTransfers, 'files'),
  ];
  app.get(
    '/sessions/:id/files',
    {
      config,
      schema: {
        tags,
        summary: 'The files of a session',
        params: sessionParams,
        querystring: filesQuery,
        response: { 200: filesAnswer, ...problemAnswers(...refusals) },
      },
    },
    async (request, reply) => {
      const { limit = FILES_PAGE.limit, cursor } = request.query;
      const page = { after: names.read(cursor), limit: limit + 1 };
      const sessionId = request.params.id;
      const rows = await files.listFiles(signedIn(request), { sessionId, ...page });
      const cursorOf = ({ name }: { name: string }) => names.write(name);
      return toPage(rows, { limit, cursorOf, request, reply }).map(presentFile);
    },
  );

  app.get(
    PATH,
    {
      config,
      onRequest: transfer,
      schema: {
        tags,
        summary: 'Downloads a file of a session',
        params: fileParams,
        response: {
          200: {
            description: 'The file, as an attachment.',
            content: { '*/*': { schema: bytes } },
          },
          ...problemAnswers(...refusals, 'file_not_found', 'unavailable'),
        },
      },
    },
    async (request, reply) => {
      const name = toFileName(request.params.name);
      const { content, mediaType } = await files.readFile(signedIn(request), {
        sessionId: request.params.id,
        name,
      });
      // Whatever it is, no browser may run it as a page of this origin, and no cache may keep it.
      return reply
        .headers({
          'content-disposition': contentDisposition(name),
          'content-security-policy': "default-src 'none'; sandbox",
          'x-content-type-options': 'nosniff',
          'cache-control': 'private, no-store',
        })
        .type(mediaType)
        .send(content);
    },
  );

  app.delete(
    PATH,
    {
      config,
      schema: {
        tags,
        summary: 'Deletes a file of a session',
        params: fileParams,
        response: {
          200: okAnswer,
          ...problemAnswers(...refusals, 'cross_site_request', 'file_not_found'),
        },
      },
    },
    async (request) => {
      const name = toFileName(request.params.name);
      await files.deleteFile(signedIn(request), { sessionId: request.params.id, name });
      return { ok: true as const };
    },
  );

  await app.register(async (scope) => uploadRoute(scope, files, transfer));
}

/** A scope of its own: nowhere else is a body taken as it is, whatever its type. */
function uploadRoute(app: Server, files: Files, transfer: readonly onRequestHookHandler[]): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));

  app.put(
    PATH,
    {
      config,
      bodyLimit: MAX_FILE_BYTES,
      // After the guard, which says who sends it, and before the body is read.
      onRequest: [(request) => checkAddress(request, files), ...transfer],
      schema: {
        tags,
        summary: 'Stores a file of a session, or replaces it',
        description:
          "The body is the file, as it is: any content type, up to 10 MiB. A session's files are at most 100, and those of its owner 1 GiB together.",
        params: fileParams,
        body: { content: { 'application/octet-stream': { schema: bytes } } },
        response: {
          200: { ...storedFile, description: 'It replaced the file of that name.' },
          201: { ...storedFile, description: 'It is new.' },
          ...problemAnswers(
            400,
            ...refusals,
            'cross_site_request',
            413,
            415,
            'too_many_files',
            'too_much_stored',
            'unavailable',
          ),
        },
      },
    },
    async (request, reply) => {
      const name = toFileName(request.params.name);
      const { id: sessionId } = request.params;
      // A request without a body has nothing to parse: that is an empty file.
      const content = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
      const user = signedIn(request);
      const { file, isNew } = await files.writeFile(user, { sessionId, name, content });
      return reply.status(isNew ? 201 : 200).send(presentStored(file));
    },
  );
}

/**
 * Refuses an upload for what its address says, without reading its body: Node passes over what of that
 * still comes. Fastify holds the address against its schema after the body only.
 * @throws ProblemError `validation_failed`, `session_not_found` or `session_not_yours`.
 */
async function checkAddress(
  request: FastifyRequest<{ Params: Static<typeof fileParams> }>,
  files: Files,
): Promise<void> {
  const isValid = request.getValidationFunction('params');
  if (isValid?.(request.params) === false) {
    const errors = describeErrors('params', isValid.errors ?? []);
    throw problem('validation_failed', { errors });
  }
  toFileName(request.params.name);
  await files.checkWrite(signedIn(request), request.params.id);
}
