/** How deep values may nest in one record. It keeps a hostile file from overflowing the stack. */
export const MAX_DEPTH = 512;

/** How many bytes one record may have. Memory is bounded by this and not by the file's size. */
export const MAX_RECORD_BYTES = 16 * 1024 * 1024;

/** How many repeated keys of one record are told one by one; the others are counted. */
export const MAX_REPEATED_KEYS = 1000;

/** How many bytes are looked at together. */
export const CHUNK_BYTES = 64 * 1024;
