/** How an inventory is written: one array of JSON, one record a line, or one list of YAML. */
export const INVENTORY_FORMATS = ['json', 'jsonl', 'yaml'] as const;
export type InventoryFormat = (typeof INVENTORY_FORMATS)[number];

/** Names of files with a record a line. */
const LINES = /\.(jsonl|ndjson)(\.gz)?$/i;

const YAML = /\.ya?ml(\.gz)?$/i;

/** How an inventory of this name is written. */
export function formatOf(name: string): InventoryFormat {
  if (YAML.test(name)) return 'yaml';
  return LINES.test(name) ? 'jsonl' : 'json';
}
