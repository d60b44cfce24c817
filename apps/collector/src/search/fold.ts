import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { listGroupMembers } from './repository.ts';
import { MAX_NAMED_DUPLICATES, type SearchFilters } from './schemas.ts';

type Grouped = { id: number; group: number | null };

/**
 * Leaves of each group of likely duplicates the first hit alone; a listing without a group stays.
 * @param hits Best first.
 */
export function foldGroups<Hit extends Grouped>(hits: readonly Hit[]): Hit[] {
  const seen = new Set<number>();
  return hits.filter(({ group }) => {
    if (group === null) return true;
    if (seen.has(group)) return false;
    seen.add(group);
    return true;
  });
}

/**
 * The other listings of each hit's group, by the hit's id, in the order of their ids: also those that the
 * search did not find, so that all offers of a home are together, up to `MAX_NAMED_DUPLICATES` of them. Archived
 * ones are left out unless asked for. A hit that is alone has none.
 */
export async function findDuplicates(
  db: Kysely<Tables>,
  hits: readonly Grouped[],
  { include_archived = false }: SearchFilters,
): Promise<Map<number, number[]>> {
  const groups = hits.map(({ group }) => group).filter((group) => group !== null);
  if (groups.length === 0) return new Map();
  // One more than are shown: the hit itself may be among them.
  const limit = MAX_NAMED_DUPLICATES + 1;
  const members = await listGroupMembers(db, groups, { include_archived, limit });
  return new Map(
    hits.map(({ id, group }) => {
      const others = (group === null ? [] : (members.get(group) ?? [])).filter((one) => one !== id);
      return [id, others.slice(0, MAX_NAMED_DUPLICATES)];
    }),
  );
}
