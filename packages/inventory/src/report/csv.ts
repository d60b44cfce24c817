import { stringify } from 'csv-stringify/sync';
import schema from '../../endpoint.schema.json' with { type: 'json' };
import { visibleText } from '../output/visible.ts';
import type { EndpointRecord } from '../record.ts';

/** How rows are written; what a spreadsheet would take for a formula is escaped. */
const OPTIONS = { escape_formulas: true, record_delimiter: 'windows' } as const;

/** All records as CSV (RFC 4180), row by row: the columns of the specification, then extra properties as they come. */
export function* csvReport(records: readonly EndpointRecord[]): Generator<string> {
  const names = new Set(Object.keys(schema.items.properties));
  for (const record of records) for (const key of Object.keys(record)) names.add(key);
  const columns = [...names];
  yield stringify([columns.map(visibleText)], OPTIONS);
  for (const record of records) {
    const row = columns.map((column) =>
      Object.hasOwn(record, column) ? cell(record[column]) : '',
    );
    yield stringify([row], OPTIONS);
  }
}

function cell(value: unknown): string {
  return visibleText(typeof value === 'string' ? value : JSON.stringify(value));
}
