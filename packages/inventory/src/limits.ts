/** Nesting depth of values in one record. It keeps a hostile file from overflowing the stack. */
export const MAX_DEPTH = 512;

/** Bytes of one record; they bound the memory of a check (docs/adr/0022-size-of-a-record.md). */
export const MAX_RECORD_BYTES = 1024 * 1024;

/** Objects, lists and strings, keys included, of one record. Some take two bytes of text and sixty of memory. */
export const MAX_RECORD_PARTS = 20_000;

/** Repeated keys of one record that are reported one by one; the others are counted. */
export const MAX_REPEATED_KEYS = 1000;

/** Bytes of a file that is read whole: an import or a configuration. */
export const MAX_TEXT_BYTES = 16 * 1024 * 1024;

/** Bytes of a baseline, which has some hundred for each finding. */
export const MAX_BASELINE_BYTES = 256 * 1024 * 1024;

/** Characters of all drafts of one import, before they become JSON. */
export const MAX_DRAFT_CHARACTERS = 32 * 1024 * 1024;

/** Characters of the address of an imported server. */
export const MAX_URL_CHARACTERS = 8 * 1024;

/** Characters of a host name (RFC 1035 §2.3.4). */
export const MAX_HOST_CHARACTERS = 255;

/** Items of one kind that the notes of a draft list; the others are counted. */
export const MAX_NOTE_ITEMS = 10;

/** Lines about skipped parts of an import; the others are counted. */
export const MAX_SKIPPED_LINES = 20;

/** Drafts of one import; a range of ports has up to 65,535 in one line. */
export const MAX_IMPORTED_RECORDS = 20_000;

/** Files that one import includes, counted each time. */
export const MAX_INCLUDED_FILES = 1_000;

/** Nesting depth of blocks and values in an imported file or a YAML inventory. */
export const MAX_IMPORT_DEPTH = 200;

/** Aliases (`*name`) of a YAML text: each is looked up in all of it. */
export const MAX_YAML_ALIASES = 1_000;

/** `maxAliasCount` of the package `yaml`. */
export const MAX_YAML_ALIAS_REPEATS = 100;

/** Bytes of a YAML inventory or OpenAPI document: the parser takes a hundred times as much memory. */
export const MAX_YAML_BYTES = 4 * 1024 * 1024;

/** Bytes of a Compose file; long ones have some 100 KiB. */
export const MAX_COMPOSE_BYTES = 512 * 1024;

/** Average bytes of a YAML token, at least. Text has four; at one, the parser takes a thousand times the memory. */
export const MIN_YAML_TOKEN_BYTES = 2;

/** Bytes that are processed together. */
export const CHUNK_BYTES = 64 * 1024;
