/** In bytes. */
export const MEBIBYTE = 1024 * 1024;

/** Most pictures of a listing, named or sent along. Contract 4, PayloadSchema. */
export const MAX_PICTURES = 50;

/** Largest body of a request, in bytes. Contract 4, PayloadSchema. */
export const BODY_LIMIT = MEBIBYTE;
