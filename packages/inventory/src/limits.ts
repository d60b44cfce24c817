const KIBIBYTE = 1024;
const MEBIBYTE = 1024 * KIBIBYTE;

/** Maximum nesting depth of a record. It protects the stack from hostile files. */
export const MAX_DEPTH = 512;
/** Maximum size of one record. It bounds the memory of a check (docs/adr/0022-size-of-a-record.md). */
export const MAX_RECORD_BYTES = MEBIBYTE;
/**
 * Maximum number of objects, lists and strings in one record, including keys. Two bytes of text may take 60 bytes of
 * memory.
 */
export const MAX_RECORD_PARTS = 20_000;
/** Maximum number of individually reported repeated keys of one record. Further keys are only counted. */
export const MAX_REPEATED_KEYS = 1000;
/** Maximum size of a processed chunk. */
export const CHUNK_BYTES = 64 * KIBIBYTE;

/** Maximum size of a file that is read into memory, such as a configuration, and of all included files of an import. */
export const MAX_TEXT_BYTES = 16 * MEBIBYTE;
/** Maximum size of a baseline. A finding takes a few hundred bytes. */
export const MAX_BASELINE_BYTES = 256 * MEBIBYTE;

/** Maximum total length of the imported endpoints of one import, as JSON. */
export const MAX_DRAFT_CHARACTERS = 32 * MEBIBYTE;
/** Maximum number of drafts per import. One line of a file may specify a range of 65,535 ports. */
export const MAX_IMPORTED_RECORDS = 20_000;
/** Maximum nesting depth of an imported file other than JSON, and of a YAML inventory. */
export const MAX_IMPORT_DEPTH = 200;
/** Maximum number of included files per import. A repeated include counts again. */
export const MAX_INCLUDED_FILES = 1_000;
/** Maximum number of items of one kind in the notes of a draft. Further items are only counted. */
export const MAX_NOTE_ITEMS = 10;
/** Maximum number of lines about skipped parts of an import. Further parts are only counted. */
export const MAX_SKIPPED_LINES = 20;
/** Maximum URL length of an imported server. */
export const MAX_URL_CHARACTERS = 8 * KIBIBYTE;
/** Maximum length of a host name (RFC 1035 §2.3.4). */
export const MAX_HOST_CHARACTERS = 255;

/** Maximum size of an inventory or OpenAPI document in YAML. The parser needs about 100 times as much memory. */
export const MAX_YAML_BYTES = 4 * MEBIBYTE;
/** Maximum size of a Compose file in YAML. Even long files have only about 100 KiB. */
export const MAX_COMPOSE_BYTES = 512 * KIBIBYTE;
/**
 * Minimum average size of a YAML token in a file of maximum size. Typical tokens are four bytes; single-byte tokens
 * exhaust memory.
 */
export const MIN_YAML_TOKEN_BYTES = 2;
/** Maximum number of aliases (`*name`) in a YAML file. Each alias requires a search of the whole file. */
export const MAX_YAML_ALIASES = 1_000;
/** Value of the option `maxAliasCount` of the package `yaml`. */
export const MAX_YAML_ALIAS_REPEATS = 100;
