/** How deep values may nest in one record. It keeps a hostile file from overflowing the stack. */
export const MAX_DEPTH = 512;

/**
 * How many bytes one record may have. Memory is bounded by this and not by the file's size: values and positions
 * of a hostile record take some forty times its text (docs/adr/0022-size-of-a-record.md).
 */
export const MAX_RECORD_BYTES = 1024 * 1024;

/** How many objects, lists and texts, names included, one record may have: some take two bytes and thirty times that. */
export const MAX_RECORD_PARTS = 20_000;

/** How many repeated keys of one record are told one by one; the others are counted. */
export const MAX_REPEATED_KEYS = 1000;

/** How many bytes a file may have that is imported, or configures a command: it is held as a whole. */
export const MAX_TEXT_BYTES = 16 * 1024 * 1024;

/** The same for a file of known findings, which has a hundred bytes for each. */
export const MAX_BASELINE_BYTES = 256 * 1024 * 1024;

/** How many characters the drafts of one import have, before they are written as JSON. */
export const MAX_DRAFTS_CHARACTERS = 32 * 1024 * 1024;

/** How many characters the address of a server has that is imported; browsers take about as many. */
export const MAX_URL_CHARACTERS = 8 * 1024;

/** How many characters a name of a host has (RFC 1035 §2.3.4), with room for a port and brackets. */
export const MAX_HOST_CHARACTERS = 255;

/** How many names, places or addresses of one kind the notes of a draft list; the others are counted. */
export const SHOWN_IN_NOTES = 10;

/** How many lines an import tells of what it left out; the others are counted. */
export const MAX_LEFT_OUT_LINES = 20;

/** How many drafts one import makes; a range of ports has up to 65,535 in one line. */
export const MAX_IMPORTED_RECORDS = 20_000;

/** How many files one import includes, each as often as it is included. */
export const MAX_INCLUDED_FILES = 1_000;

/** How deep blocks and values may nest in a file that is imported. */
export const MAX_IMPORT_DEPTH = 200;

/** How many aliases (`*name`) a YAML file may have: each is looked for in the whole file. */
export const MAX_YAML_ALIASES = 1_000;

/** How often an alias of a YAML file may be repeated by others (`maxAliasCount` of the package `yaml`). */
export const MAX_YAML_ALIAS_REPEATS = 100;

/** How many bytes of an OpenAPI document in YAML are imported: what the parser makes of text takes a hundred times as much. */
export const MAX_YAML_BYTES = 4 * 1024 * 1024;

/** The same for a Compose file; long ones have some 100 KiB. */
export const MAX_COMPOSE_BYTES = 512 * 1024;

/**
 * How many bytes a word, mark, space or line end of a YAML file has on average, at the least. Ordinary text has
 * four; of one byte each, the parser takes a thousand times as much memory as the text.
 */
export const MIN_BYTES_OF_YAML_PART = 2;

/** How many bytes are looked at together. */
export const CHUNK_BYTES = 64 * 1024;
