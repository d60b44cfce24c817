/** Ids are JavaScript numbers, and larger ones than those hold do not exist. */
export const MAX_ID = Number.MAX_SAFE_INTEGER;

/** Largest body of a request, in bytes. Contract 4, PayloadSchema. */
export const BODY_LIMIT = 1024 * 1024;
