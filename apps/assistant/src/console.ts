import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import fastifyStatic from '@fastify/static';
import type { Server } from '@oselya/kit';
import { buildPageSchema } from './identity/routes.ts';

/** Folder of the built console. `npm run build:console` makes it. */
export const CONSOLE_FOLDER = join(import.meta.dirname, '../../console/dist');

/** Placeholder of the nonce in the built page. */
const NONCE_PLACEHOLDER = '{{nonce}}';
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
export async function registerConsoleRoutes(app: Server, folder: string): Promise<boolean> {
  const page = await readFile(join(folder, 'index.html'), 'utf8').catch(() => undefined);
  if (page === undefined) return false;
  await app.register(fastifyStatic, {
    root: join(folder, 'assets'),
    serve: false,
    preCompressed: true,
    immutable: true,
    maxAge: '365d',
  });
  const asset = { config: { access: 'public' }, schema: { hide: true } } as const;
  app.get<{ Params: { '*': string } }>('/app/assets/*', asset, (request, reply) =>
    reply.sendFile(request.params['*']),
  );
  const shown = {
    config: { access: 'public' },
    schema: { hide: true, response: { 200: buildPageSchema('The console.') } },
  } as const;
  for (const path of ['/', '/app', '/app/*']) {
    app.get(path, shown, (_request, reply) => {
      const nonce = randomBytes(NONCE_BYTES).toString('base64');
      return reply
        .header('cache-control', 'no-store')
        .header('content-security-policy', buildPolicy(nonce))
        .type('text/html; charset=utf-8')
        .send(page.replaceAll(NONCE_PLACEHOLDER, nonce));
    });
  }
  return true;
}
