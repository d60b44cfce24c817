import { createHmac, hkdfSync } from 'node:crypto';
import { isSameSecret, type Server } from '@oselya/kit';
import { Type } from 'typebox';
import type { CollectorClient } from '../collector/client.ts';
import type { Config } from '../config.ts';
import { problem } from '../errors.ts';
import type { Identity } from '../identity/identity.ts';
import { forwardRequest } from '../collector/forward.ts';

const HOUR_SECONDS = 3600;

/** Longest sides of the smaller copies, in pixels. Contract 4, Images. */
const SIZES = { small: 320, large: 1024 } as const;

/** User of a link. Links end when the user's access is invalidated, which increments the generation. */
type LinkUser = { id: string; generation: number };

/** Content of a link: `expires` is in seconds since the epoch, and without a `size` it is the original. */
type Link = { sha256: string; size?: number | undefined; user: string; expires: number };

export type ImageLinks = ReturnType<typeof createImageLinks>;

/** Creates the signed links of images. Their key is derived from the encryption key of tokens (RFC 5869). */
export function createImageLinks({
  SVC_AUTH_ENCRYPTION_KEY: secret,
}: Pick<Config, 'SVC_AUTH_ENCRYPTION_KEY'>) {
  const secretBytes = Buffer.from(secret, 'base64url');
  const key = Buffer.from(hkdfSync('sha256', secretBytes, '', 'image links', 32));

  const sign = (generation: number, { sha256, size, user, expires }: Link) =>
    createHmac('sha256', key)
      .update(JSON.stringify([user, generation, sha256, size ?? null, expires]))
      .digest('base64url');

  return {
    /** Returns the links of an image, which last one to two hours and change every hour, so that browsers cache them. */
    create({ id: user, generation }: LinkUser, sha256: string) {
      const expires = (Math.floor(Date.now() / 1000 / HOUR_SECONDS) + 2) * HOUR_SECONDS;
      const buildUrl = (size?: number) => {
        const signature = sign(generation, { sha256, size, user, expires });
        const query = new URLSearchParams({
          ...(size !== undefined && { size: String(size) }),
          user,
          expires: String(expires),
          signature,
        });
        return `/images/${sha256}?${query.toString()}`;
      };
      return {
        small: buildUrl(SIZES.small),
        large: buildUrl(SIZES.large),
        original: buildUrl(),
      };
    },
    /** Returns the number of seconds until a link expires: 0 if it has expired, is forged or belongs to another user. */
    check(
      { id, generation }: LinkUser,
      { signature, ...link }: Link & { signature: string },
    ): number {
      if (link.user !== id || !isSameSecret(signature, sign(generation, link))) return 0;
      return Math.max(0, link.expires - Math.floor(Date.now() / 1000));
    },
  };
}

const imageSchema = Type.Unsafe<Response['body']>(Type.Unknown());

/** Registers `GET /images/{sha256}`, which sends no request to the identity provider. docs/security.md, Access. */
export function registerImageRoute(
  app: Server,
  deps: { collector: CollectorClient; identity: Identity; imageLinks: ImageLinks },
): void {
  const { collector, identity, imageLinks } = deps;
  app.get(
    '/images/:sha256',
    {
      config: {
        access: 'public',
        errors: [
          'not_signed_in',
          'image_link_not_valid',
          'image_not_found',
          'collector_unavailable',
        ],
      },
      exposeHeadRoute: false,
      attachValidation: true,
      schema: {
        tags: ['listings'],
        summary: 'An image of a listing',
        description:
          'Answers with listings have the addresses of this endpoint. They work for the session cookie of their user only, for one to two hours.',
        params: Type.Object({ sha256: Type.String({ pattern: '^[0-9a-f]{64}$' }) }),
        querystring: Type.Object({
          size: Type.Optional(Type.Integer({ description: 'Longest side of a smaller copy.' })),
          user: Type.String(),
          expires: Type.Integer({ description: 'Seconds since 1970.' }),
          signature: Type.String(),
        }),
        response: {
          200: { description: 'The image.', content: { '*/*': { schema: imageSchema } } },
        },
      },
    },
    async (request, reply) => {
      const sessionId = identity.cookies.sessionId(request);
      const session = sessionId === null ? undefined : await identity.findSession(sessionId);
      if (session === undefined) throw problem('not_signed_in');
      if (request.validationError) throw problem('image_link_not_valid');
      const { sha256 } = request.params;
      const { size } = request.query;
      const user = { id: session.user_id, generation: session.accessGeneration };
      const remainingSeconds = imageLinks.check(user, { sha256, ...request.query });
      if (remainingSeconds === 0) throw problem('image_link_not_valid');
      const path = `/images/${sha256}${size === undefined ? '' : `?size=${size}`}`;
      const { response } = await forwardRequest(collector, path);
      const length = response.headers.get('content-length');
      return reply
        .headers({
          'cache-control': `private, max-age=${remainingSeconds}, immutable`,
          'content-security-policy': "default-src 'none'; sandbox",
          ...(length !== null && { 'content-length': length }),
        })
        .type(response.headers.get('content-type') ?? 'application/octet-stream')
        .send(response.body);
    },
  );
}
