import type { StoredFact, StoredSummary } from './store.ts';

/** What adoption comes to, told without SQL. Specification 000, Legacy data. */
export function adoptFacts(facts: readonly StoredFact[], userId: string) {
  const others = facts.filter(({ user_id }) => user_id !== null && user_id !== userId);
  const mine = facts.filter((fact) => !others.includes(fact));
  const names = Map.groupBy(mine, ({ category, key }) => JSON.stringify([category, key]));
  const report = {
    assigned: 0,
    replaced: [] as { category: string; key: string }[],
    kept: [] as { category: string; key: string }[],
    doubles: 0,
  };
  const left = [...names.values()].map((rivals) => {
    const [winner, ...losers] = rivals.toSorted(newestFirst);
    if (winner === undefined) throw new Error('A group has a member');
    const { category: named, key } = winner;
    const category = named ?? '';
    const legacyLosers = losers.filter(({ user_id }) => user_id === null).length;
    if (winner.user_id === null) {
      report.assigned += 1;
      report.doubles += legacyLosers;
      if (legacyLosers < losers.length) report.replaced.push({ category, key });
    } else if (legacyLosers > 0) {
      report.kept.push({ category, key });
      report.doubles += legacyLosers - 1;
    }
    if (losers.length === 0) return { ...winner, user_id: userId };
    const created = rivals.map(({ created_us }) => created_us).filter((us) => us !== null);
    return {
      ...winner,
      user_id: userId,
      created_us: created.length === 0 ? null : Math.min(...created),
      updated_us: winner.updated_us ?? winner.created_us,
    };
  });
  return { facts: [...others, ...left].toSorted(byId), report };
}

const writtenUs = ({ updated_us, created_us }: StoredFact) => updated_us ?? created_us ?? -Infinity;

function newestFirst(a: StoredFact, b: StoredFact): number {
  if (writtenUs(a) !== writtenUs(b)) return writtenUs(a) < writtenUs(b) ? 1 : -1;
  if (a.user_id !== b.user_id) return a.user_id === null ? 1 : -1;
  return a.id < b.id ? 1 : -1;
}

function byId(a: { id: string }, b: { id: string }): number {
  return a.id < b.id ? -1 : 1;
}

/** For texts of which none stands in another one, unless they are the same. */
export function adoptSummaries(summaries: readonly StoredSummary[], userId: string) {
  const others = summaries.filter(({ user_id }) => user_id !== null && user_id !== userId);
  const mine = summaries.filter((one) => !others.includes(one)).toSorted(oldestFirst);
  const own = mine.find(({ user_id }) => user_id !== null);
  const survivor = own ?? mine.at(-1);
  const legacy = mine.filter(({ user_id }) => user_id === null).length;
  if (survivor === undefined || legacy === 0) {
    return {
      summaries: [...summaries].toSorted(byId),
      report: { outcome: 'none', legacy: 0 },
    };
  }
  const merged = {
    id: survivor.id,
    user_id: userId,
    summary: [...new Set(mine.map(({ summary }) => summary).filter((text) => text !== null))].join(
      '\n\n',
    ),
    updated_us: mine.at(-1)?.updated_us ?? null,
  };
  return {
    summaries: [...others, merged].toSorted(byId),
    report: { outcome: own === undefined ? 'assigned' : 'merged', legacy },
  };
}

function oldestFirst(a: StoredSummary, b: StoredSummary): number {
  const [aUs, bUs] = [a.updated_us ?? -Infinity, b.updated_us ?? -Infinity];
  if (aUs !== bUs) return aUs < bUs ? -1 : 1;
  if (a.user_id !== b.user_id) return a.user_id === null ? -1 : 1;
  return byId(a, b);
}
