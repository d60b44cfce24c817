import type { ErrorDefinition } from '@oselya/kit';

const PAGE_HEAD = `# Errors

Every error is answered as \`application/problem+json\` (RFC 9457) with a stable \`code\`; a browser that
navigates gets a page instead. "Again" says whether the same request can succeed later. This page is
made by \`npm run generate\` from the error tables in the code.
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
