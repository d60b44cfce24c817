/**
 * A row as `copy … from` reads it: columns parted by tabs, and what would be read as something else written
 * with backslashes. "PostgreSQL documentation, COPY, Text Format".
 */
export function copyRow(columns: readonly (string | number | null)[]): string {
  const cells = columns.map((value) => {
    if (value === null) return String.raw`\N`;
    return typeof value === 'number' ? String(value) : value.replaceAll(/[\\\t\n\r]/g, escape);
  });
  return `${cells.join('\t')}\n`;
}

const ESCAPES: Record<string, string> = {
  '\\': String.raw`\\`,
  '\t': String.raw`\t`,
  '\n': String.raw`\n`,
  '\r': String.raw`\r`,
};

function escape(character: string): string {
  return ESCAPES[character] ?? character;
}

/** A list of texts as PostgreSQL reads an array. */
export function arrayText(items: readonly string[]): string {
  return `{${items.map((item) => `"${item.replaceAll(/["\\]/g, String.raw`\$&`)}"`).join(',')}}`;
}
