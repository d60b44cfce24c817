/** How deep values may nest in one record. It keeps a hostile file from overflowing the stack. */
export const MAX_DEPTH = 512;

/** How many bytes one record may have. Memory is bounded by this and not by the file's size. */
export const MAX_RECORD_BYTES = 16 * 1024 * 1024;

/** How many bytes are looked at together; it also bounds the findings that wait to be taken. */
export const CHUNK_BYTES = 64 * 1024;
