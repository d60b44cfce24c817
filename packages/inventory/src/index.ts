export { isEndpointRecord, isInventory } from './record.ts';
export type { EndpointRecord } from './record.ts';
export { RULES } from './finding.ts';
export type {
  Excerpt,
  Finding,
  FindingCode,
  Fix,
  Position,
  RelatedPlace,
  Severity,
} from './finding.ts';
export { maskRecord } from './credentials.ts';
export type { InventoryFormat } from './input/format.ts';
export type { InventorySource } from './input/source.ts';
export { validateInventory } from './check/validate.ts';
export type { ValidateOptions, ValidationSummary } from './check/validate.ts';
export { runInventory } from './cli.ts';
export type { InventoryIo } from './io.ts';
export { keepHeapSmall } from './heap.ts';
export type { Inspect, PropertyProblem, ReadRecord } from './check/check-record.ts';
export { IdRegister } from './lint/id-register.ts';
export { lintInventory } from './lint/lint.ts';
export type { LintOptions } from './lint/lint.ts';
export { CONFIG_SCHEMA, ConfigError, parseConfig } from './lint/config.ts';
export type { LintConfig } from './lint/config.ts';
export { InvalidInventoryError, readRecords } from './check/read-records.ts';
export type { PlacedRecord } from './check/read-records.ts';
export { diffInventories, RepeatedIdError } from './diff/diff.ts';
export type { InventoryDiff, PropertyChange, RecordChange } from './diff/diff.ts';
export { hostsLines } from './export/hosts.ts';
export { blackboxTargets, prometheusTargets } from './export/targets.ts';
export type { Exported, TargetGroup } from './export/targets.ts';
export { probeAll } from './probe/probe-all.ts';
export type { ProbeAllOptions } from './probe/probe-all.ts';
export { probeRecord } from './probe/probe.ts';
export type { Observation, ProbeOptions, ProbeProblem } from './probe/probe.ts';
