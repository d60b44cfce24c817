/** Database connections of every server, as many as the assistant opens. */
export const POOL_SIZE = 10;

/** Idle connections are kept as long as Fastify keeps them, so that none breaks while it is not used. */
export const KEEP_ALIVE_MS = 72_000;
