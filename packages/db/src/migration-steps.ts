/** A statement that runs by itself, and the index that it builds where it does. */
export type Step = { statement: string; builds: string | undefined };

/** What may be repeated after it was interrupted anywhere, and keeps nobody from reading or writing. */
const REPEATABLE =
  /^(?:create\s+(?:unique\s+)?index\s+concurrently\s+if\s+not\s+exists\s+(?<builds>[a-z_][a-z0-9_]*)\s|drop\s+index\s+concurrently\s+if\s+exists\s|analyze\s)/i;

/**
 * The statements of a file that is applied outside of a transaction, where each has to be sent alone.
 * @throws Error for a statement that could not be repeated after a kill, or would lock a table.
 */
export function readSteps(sql: string): Step[] {
  return sql
    .replaceAll(/--.*$/gm, '')
    .split(';')
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '')
    .map((statement) => {
      const match = REPEATABLE.exec(`${statement} `);
      if (match === null) {
        throw new Error(
          `"${statement.slice(0, 60)}" is neither "create index concurrently if not exists", nor "drop index concurrently if exists", nor "analyze"`,
        );
      }
      return { statement, builds: match.groups?.['builds'] };
    });
}
