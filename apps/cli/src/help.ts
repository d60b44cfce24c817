/**
 * What stands below the help of a command.
 * @param needs What has to be there, with the variables that say where.
 * @param note One more thing worth knowing.
 */
export function help(needs: string, note: string): string {
  return `
It needs ${needs}
${note}
Every variable is in docs/configuration.md.`;
}
