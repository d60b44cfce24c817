/** Database pool size of every server, the same as the assistant's default. */
export const POOL_SIZE = 10;

/** Keep-alive timeout of every server, the same as Fastify's default. */
export const KEEP_ALIVE_MS = 72_000;
