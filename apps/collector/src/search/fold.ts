import type { Kysely } from 'kysely';
import type { Tables } from '../database.ts';
import type { SearchFilters } from './schemas.ts';

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
 * search did not find, so that all offers of a home are together. Archived ones are left out unless asked
 * for. A hit that is alone has none.
 */
export async function findDuplicates(
  db: Kysely<Tables>,
  hits: readonly Grouped[],
  { include_archived = false }: SearchFilters,
): Promise<Map<number, number[]>> {
  const groups = hits.map(({ group }) => group).filter((group) => group !== null);
  if (groups.length === 0) return new Map();
  const rows = await db
    .selectFrom('property_listings')
    .select(['id', 'duplicate_group'])
    .where('duplicate_group', 'in', groups)
    .$if(!include_archived, (query) => query.where('archived_at', 'is', null))
    .orderBy('id')
    .execute();
  const members = Map.groupBy(rows, (row) => row.duplicate_group);
  return new Map(
    hits.map(({ id, group }) => {
      const all = (group === null ? undefined : members.get(group)) ?? [];
      return [id, all.map((row) => row.id).filter((other) => other !== id)];
    }),
  );
}
