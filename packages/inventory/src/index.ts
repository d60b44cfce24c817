export { keepHeapSmall, runInventory } from './cli.ts';
export type { InventoryIo } from './command/command.ts';
export { diffInventories, RepeatedIdError } from './command/diff.ts';
export type { InventoryDiff, PropertyChange, RecordChange } from './command/diff.ts';
export { maskFinding, maskRecord } from './credentials.ts';
export { RULES } from './finding.ts';
export type {
  Excerpt,
  Finding,
  FindingCode,
  Fix,
  Position,
  RelatedLocation,
  Severity,
} from './finding.ts';
export { CONFIG_SCHEMA, ConfigError, lintInventory, parseConfig } from './lint/lint.ts';
export type { LintConfig, LintOptions } from './lint/lint.ts';
export { probeAll, probeRecord } from './probe/probe.ts';
export type { Observation, ProbeAllOptions, ProbeOptions, ProbeProblem } from './probe/probe.ts';
export type { RecordInspector, PropertyProblem, InspectedRecord } from './read/check-record.ts';
export type { InventoryFormat, InventorySource } from './read/input.ts';
export { InvalidInventoryError, readRecords, validateInventory } from './read/inventory-reader.ts';
export type { PlacedRecord, ValidateOptions, ValidationSummary } from './read/inventory-reader.ts';
export { isEndpointRecord, isInventory } from './record.ts';
export type { EndpointRecord } from './record.ts';
