import type { Finding } from '../finding.ts';
import type { InventorySource } from '../input/source.ts';
import { InventoryReader, type ReaderOptions } from './inventory-reader.ts';

export type ValidateOptions = {
  /** Stops after so many errors; warnings are not counted. */
  maxErrors?: number;
  /** Findings that are left out, and counted as hidden. */
  ignores?: (finding: Finding) => boolean;
} & ReaderOptions;

/** What a validation that ended tells beside its findings. */
export type ValidationSummary = {
  /** How many records were read. */
  records: number;
  /** False when reading stopped before the end: text that is no JSON, or `maxErrors`. */
  isComplete: boolean;
  /** How many findings were left out; only where there were some. */
  hidden?: number;
  /** How many findings are silenced beside their records; only where there are some. */
  silenced?: number;
};

/**
 * Validates an inventory against `endpoint.schema.json` (Specification 002; Contract 5) and yields
 * each finding as soon as it is known, in the order of the source. The summary is the generator's
 * return value. Memory does not grow with the source.
 *
 * A JSON text is read up to its first syntax error; JSON Lines are read on at the next line.
 * Gzip (RFC 1952) is unpacked on the way. Throws what reading the source throws, such as ENOENT for a
 * path, and Z_DATA_ERROR for broken gzip.
 */
export async function* validateInventory(
  source: InventorySource,
  options: ValidateOptions = {},
): AsyncGenerator<Finding, ValidationSummary, undefined> {
  const { maxErrors = Infinity, ignores } = options;
  const reader = new InventoryReader(source, options);
  let errors = 0;
  let hidden = 0;
  const summary = (isComplete: boolean) => {
    return { records: reader.records, isComplete, ...(hidden > 0 && { hidden }) };
  };
  for await (const findings of reader.read()) {
    for (const finding of findings) {
      if (ignores?.(finding)) {
        hidden += 1;
        continue;
      }
      yield finding;
      if (finding.severity === 'error') errors += 1;
      if (errors >= maxErrors) return summary(false);
    }
  }
  return summary(reader.isComplete);
}
