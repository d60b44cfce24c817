import type { Server } from '@oselya/kit';
import fresh from 'fresh';
import { Type } from 'typebox';
import { problem, problemResponses } from '../errors.ts';
import type { ImageService, ImageContent } from './image-service.ts';
import { THUMBNAIL_SIDES } from './store.ts';

const paramsSchema = Type.Object({ sha256: Type.String({ pattern: '^[0-9a-f]{64}$' }) });

const querySchema = Type.Object(
  {
    // Arbitrary sizes would fill caches.
    size: Type.Optional(
      Type.Union([Type.Literal(THUMBNAIL_SIDES[0]), Type.Literal(THUMBNAIL_SIDES[1])], {
        description: 'Longest side of a JPEG thumbnail in pixels; the original file if omitted.',
      }),
    ),
  },
  { additionalProperties: false },
);

const contentSchema = Type.Unsafe<ImageContent['content']>(Type.String({ format: 'binary' }));
const notModifiedSchema = Type.Unsafe<undefined>(
  Type.Null({ description: 'The cached copy is current' }),
);

/** Registers `GET /images/{sha256}`, whose responses clients may cache indefinitely. Contract 4, Images. */
export function registerImageRoutes(app: Server, images: Pick<ImageService, 'has' | 'open'>): void {
  app.get(
    '/images/:sha256',
    {
      config: { scope: 'search' },
      schema: {
        tags: ['images'],
        summary: 'An image, or a smaller copy of it',
        params: paramsSchema,
        querystring: querySchema,
        response: {
          200: { description: 'The image', content: { 'image/*': { schema: contentSchema } } },
          304: notModifiedSchema,
          ...problemResponses(401, 403, 'image_not_found', 422, 503),
        },
      },
    },
    async (request, reply) => {
      const { sha256 } = request.params;
      const { size } = request.query;
      const etag = size === undefined ? `"${sha256}"` : `"${sha256}-${size}"`;
      // A shared cache must not serve an image that needs an API key.
      const cacheVisibility = request.apiKey === null ? 'public' : 'private';
      // A 304 response has the same headers (RFC 9110 15.4.5).
      const headers = {
        'cache-control': `${cacheVisibility}, max-age=31536000, immutable`,
        etag,
        'x-content-type-options': 'nosniff',
      };
      const { 'if-none-match': ifNoneMatch, 'cache-control': cacheControl } = request.headers;
      const isFresh = fresh(
        { 'if-none-match': ifNoneMatch, 'cache-control': cacheControl },
        headers,
      );
      if (isFresh && (await images.has(sha256))) {
        return reply.headers(headers).status(304).send(undefined);
      }
      const image = await images.open(sha256, size);
      if (image === undefined) throw problem('image_not_found');
      const { mediaType, length, content } = image;
      return reply
        .headers({ ...headers, 'content-length': length })
        .type(mediaType)
        .send(content);
    },
  );
}
