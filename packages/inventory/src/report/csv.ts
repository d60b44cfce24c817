import { stringify } from 'csv-stringify/sync';
import schema from '../../endpoint.schema.json' with { type: 'json' };
import type { EndpointRecord } from '../record.ts';

/**
 * All records as CSV (RFC 4180): the columns of the specification, then extra properties as they come.
 * What a spreadsheet would take for a formula is escaped.
 */
export function csvReport(records: readonly EndpointRecord[]): string {
  const extras = new Set(records.flatMap((record) => Object.keys(record)));
  const columns = [...new Set([...Object.keys(schema.items.properties), ...extras])];
  const rows = records.map((record) =>
    columns.map((column) => (Object.hasOwn(record, column) ? cell(record[column]) : '')),
  );
  return stringify([columns, ...rows], { escape_formulas: true, record_delimiter: 'windows' });
}

function cell(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
