import type { ReadRecord } from './check-record.ts';
import type { Finding } from '../finding.ts';
import type { InventorySource } from '../input/source.ts';
import { InventoryReader, type ReaderOptions } from './inventory-reader.ts';
import type { EndpointRecord } from '../record.ts';

/** An endpoint record, and where it stands. */
export type PlacedRecord = {
  value: EndpointRecord;
} & Omit<ReadRecord, 'value' | 'isValid'>;

/** An inventory is not valid; `finding` is the first thing that is wrong. */
export class InvalidInventoryError extends Error {
  override name = 'InvalidInventoryError';
  readonly finding: Finding;

  constructor(finding: Finding) {
    const { file, line, column, message } = finding;
    super(`${file}:${line}:${column}: ${message}`);
    this.finding = finding;
  }
}

/**
 * Reads the records of a valid inventory one after another, in bounded memory. Warnings are passed over.
 * @throws InvalidInventoryError at the first error, and what reading the source throws.
 */
export async function* readRecords(
  source: InventorySource,
  options: Pick<ReaderOptions, 'format' | 'file'> = {},
): AsyncGenerator<PlacedRecord, void, undefined> {
  let read: PlacedRecord[] = [];
  const reader = new InventoryReader(source, {
    ...options,
    inspect({ value, isValid, index, position }) {
      if (isValid) read.push({ value: value as EndpointRecord, index, position });
      return [];
    },
  });
  for await (const findings of reader.read()) {
    for (const finding of findings) {
      if (finding.severity === 'error') throw new InvalidInventoryError(finding);
    }
    yield* read;
    read = [];
  }
}
