/** How an inventory is written: one array, or one record a line. */
export type InventoryFormat = 'json' | 'jsonl';

/** Names of files with a record a line. */
const LINES = /\.(jsonl|ndjson)(\.gz)?$/i;

/** How an inventory of this name is written. */
export function formatOf(name: string): InventoryFormat {
  return LINES.test(name) ? 'jsonl' : 'json';
}
