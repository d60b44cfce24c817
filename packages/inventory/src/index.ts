export { isEndpointRecord, isInventory } from './record.ts';
export type { EndpointRecord } from './record.ts';
export { RULES } from './finding.ts';
export type { Excerpt, Finding, FindingCode, Position, RelatedPlace } from './finding.ts';
export type { InventorySource } from './input/source.ts';
export { validateInventory } from './validate.ts';
export type { ValidateOptions, ValidationSummary } from './validate.ts';
export { runInventory } from './cli.ts';
export type { InventoryIo } from './command/io.ts';
