import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import fastifyStatic from '@fastify/static';
import type { Server } from '@oselya/kit';
import { buildPageSchema } from './identity/routes.ts';

/** Folder of the built console. `npm run build:console` makes it. */
export const CONSOLE_FOLDER = join(import.meta.dirname, '../../console/dist');

/** Placeholders in the built page: the nonce of a response, and the public origin. */
const NONCE_PLACEHOLDER = '{{nonce}}';
const ORIGIN_PLACEHOLDER = '{{origin}}';
const NONCE_BYTES = 18;

const buildPolicy = (nonce: string) =>
  [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "img-src 'self' data: blob:",
    "font-src 'self'",
    "connect-src 'self'",
    "worker-src 'self'",
    "manifest-src 'self'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ].join(';');

/**
 * Registers the console: its page at `/` and below `/app`, and its files.
 * @returns Whether the console is built. Otherwise no route is registered.
 */
export async function registerConsoleRoutes(
  app: Server,
  { folder, baseUrl }: { folder: string; baseUrl: string },
): Promise<boolean> {
  const pageFile = join(folder, 'index.html');
  if (!existsSync(pageFile)) return false;
  await app.register(fastifyStatic, {
    root: join(folder, 'assets'),
    serve: false,
    preCompressed: true,
    immutable: true,
    maxAge: '365d',
  });
  const assetOptions = { config: { access: 'public' }, schema: { hide: true } } as const;
  app.get<{ Params: { '*': string } }>('/app/assets/*', assetOptions, (request, reply) =>
    reply.sendFile(request.params['*']),
  );
  const pageOptions = {
    config: { access: 'public' },
    schema: { hide: true, response: { 200: buildPageSchema('The console.') } },
  } as const;
  for (const path of ['/', '/app', '/app/*']) {
    app.get(path, pageOptions, async (_request, reply) => {
      // A new build has other files, so the page is read for each response.
      const page = await readFile(pageFile, 'utf8');
      const nonce = randomBytes(NONCE_BYTES).toString('base64');
      return reply
        .header('cache-control', 'no-store')
        .header('content-security-policy', buildPolicy(nonce))
        .type('text/html; charset=utf-8')
        .send(page.replaceAll(NONCE_PLACEHOLDER, nonce).replace(ORIGIN_PLACEHOLDER, baseUrl));
    });
  }
  return true;
}
