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

/** How many drafts one import makes; a range of ports has up to 65,535 in one line. */
export const MAX_IMPORTED_RECORDS = 20_000;

/** How deep blocks and values may nest in a file that is imported. */
export const MAX_IMPORT_DEPTH = 200;

/** How many aliases (`*name`) a YAML file may have: each is looked for in the whole file. */
export const MAX_YAML_ALIASES = 1_000;

/** How often an alias of a YAML file may be repeated by others (`maxAliasCount` of the package `yaml`). */
export const MAX_YAML_ALIAS_REPEATS = 100;

/** How many bytes of YAML are imported: what the parser makes of them is a hundred times as much. */
export const MAX_YAML_BYTES = 4 * 1024 * 1024;

/** How many bytes are looked at together. */
export const CHUNK_BYTES = 64 * 1024;
