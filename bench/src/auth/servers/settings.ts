/** As many connections to the database as the assistant opens, for every server. */
export const POOL_SIZE = 10;

/** Idle connections are kept as long as Fastify keeps them, so that none breaks while it is not used. */
export const KEEP_ALIVE_MS = 72_000;
