import type { FastifyInstance } from 'fastify';

/** A house: the platform's icon in browser tabs. */
const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">
  <rect width="32" height="32" rx="7" fill="#2f7d5b"/>
  <path d="M6 16.5 16 8l10 8.5M9 15v9h14v-9" fill="none" stroke="#fff" stroke-width="3"
    stroke-linecap="round" stroke-linejoin="round"/>
</svg>
`;

/** Serves the icon where browsers look for one. */
export function iconRoute(app: FastifyInstance): void {
  const options = {
    config: { operational: true },
    schema: { hide: true },
    logLevel: 'warn',
  } as const;
  app.get('/favicon.ico', options, (_request, reply) =>
    reply.header('cache-control', 'max-age=86400').type('image/svg+xml').send(ICON),
  );
}
