import type { ErrorDefinition } from '@oselya/kit';

const PAGE_HEAD = `# Errors

Every error response has the type \`application/problem+json\` (RFC 9457) and a stable \`code\`; browser
navigation receives an HTML page instead. The column "again" says whether the same request can succeed later.
\`npm run generate\` creates this page from the error tables in the code.
`;

/** Formats the page of all errors. */
export function formatErrorsPage(tables: Record<string, Record<string, ErrorDefinition>>): string {
  const sections = Object.entries(tables).map(([service, table]) => {
    const rows = Object.entries(table)
      .toSorted(([a, x], [b, y]) => x.status - y.status || a.localeCompare(b))
      .map(
        ([code, { status, title, advice, canRetry }]) =>
          `| ${status} | \`${code}\` | ${title} | ${advice} | ${canRetry ? 'yes' : 'no'} |`,
      );
    return `## ${service}

| status | code | title | what to do | again |
| --- | --- | --- | --- | --- |
${rows.join('\n')}
`;
  });
  return [PAGE_HEAD, ...sections].join('\n');
}
