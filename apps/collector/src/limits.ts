/** Ids are JavaScript numbers, and larger ones than those hold do not exist. */
export const MAX_ID = Number.MAX_SAFE_INTEGER;

/** In bytes. */
export const MEBIBYTE = 1024 * 1024;

/** Largest body of a request, in bytes. Contract 4, PayloadSchema. */
export const BODY_LIMIT = MEBIBYTE;
