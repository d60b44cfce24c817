import type { Day } from '../day.ts';
import { cell } from '../output/markdown.ts';
import { count } from '../output/wording.ts';
import type { EndpointRecord } from '../record.ts';
import { addressOf, type Count, ownerOf, summarize } from './summary.ts';

/** The counts and all records as GitHub's Markdown, piece by piece. */
export function* markdownReport(
  records: readonly EndpointRecord[],
  { title, today }: { title: string; today: Day },
): Generator<string> {
  const { byExposure, byOwner, byReview } = summarize(records, today);
  const head = ['name', 'exposure', 'type', 'status', 'address', 'owner', 'auth', 'last reviewed'];
  const counted = [
    `# ${cell(title)}`,
    `${count(records.length, 'endpoint')} on ${today}.`,
    countTable('exposure', byExposure),
    countTable('owner', byOwner),
    countTable('last review', byReview),
  ];
  yield counted.join('\n\n');
  yield `\n\n${table(head, [])}\n`;
  for (const record of records) yield `${line(cellsOf(record).map(cell))}\n`;
}

function cellsOf(record: EndpointRecord): string[] {
  return [
    record.name,
    record.exposure,
    record.type,
    record.status,
    addressOf(record),
    ownerOf(record),
    record.auth ?? '',
    record.last_reviewed,
  ];
}

function countTable(what: string, counts: readonly Count[]): string {
  return table(
    [what, 'endpoints'],
    counts.map((one) => [one.label, String(one.count)]),
  );
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const rule = head.map(() => '---');
  return [line(head), line(rule), ...rows.map((cells) => line(cells.map(cell)))].join('\n');
}

function line(cells: readonly string[]): string {
  return `| ${cells.join(' | ')} |`;
}
