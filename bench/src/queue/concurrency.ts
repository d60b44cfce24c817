/** Jobs at once, for every queue: as many as graphile-worker's own measurements have. */
export const CONCURRENCY = 24;

/** Connections to the database, for every queue: one for each job, and some beside. */
export const POOL_SIZE = CONCURRENCY + 8;
