/** Database pool size of the peers, the same as the assistant's default. */
export const POOL_SIZE = 10;

/** Keep-alive timeout of the servers without Fastify, the same as Fastify's default. */
export const KEEP_ALIVE_MS = 72_000;
