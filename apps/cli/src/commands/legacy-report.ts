import { foundNothing, type LegacyReport } from '@oselya/assistant';
import { oneLine } from '../terminal.ts';

/** How many facts of a kind are named. */
const NAMED = 20;

type FactNames = LegacyReport['facts']['kept'];

/** What `oselya assign-legacy` did or would do, as lines for a terminal. */
export function describeAdoption(
  report: LegacyReport,
  { userId, dryRun }: { userId: string; dryRun: boolean },
): string[] {
  if (foundNothing(report)) return ['Nothing to do: all sessions and all memory have an owner.'];
  const { sessions, facts, summaries } = report;
  const owner = oneLine(JSON.stringify(userId));
  return [
    dryRun
      ? `This is what would become the data of ${owner}. Nothing was changed.`
      : `This is the data of ${owner} now.`,
    `sessions assigned: ${sessions}`,
    `facts assigned: ${facts.assigned}`,
    ...named('in place of an older value of the user', facts.replaced),
    ...named("deleted, since the user's own value is newer", facts.kept),
    ...(facts.doubles === 0 ? [] : [`  deleted, since another has the name: ${facts.doubles}`]),
    `summary: ${describeSummaries(summaries)}`,
  ];
}

function named(what: string, names: FactNames): string[] {
  if (names.length === 0) return [];
  const lines = names.slice(0, NAMED).map(({ category, key }) => {
    return `    ${oneLine(category)} / ${oneLine(key)}`;
  });
  const more = names.length - lines.length;
  return [`  ${what}: ${names.length}`, ...lines, ...(more > 0 ? [`    … and ${more} more`] : [])];
}

const SUMMARY_OUTCOMES = {
  none: 'none',
  assigned: 'assigned',
  merged: "merged with the user's own",
} as const;

function describeSummaries({ outcome, legacy }: LegacyReport['summaries']): string {
  return `${SUMMARY_OUTCOMES[outcome]}${legacy > 1 ? ` (${legacy} as one)` : ''}`;
}
