/** In bytes. */
export const MEBIBYTE = 1024 * 1024;

/** Largest body of a request, in bytes. Contract 4, PayloadSchema. */
export const BODY_LIMIT = MEBIBYTE;
