import { queryOptions, useMutation, useQueries, useQueryClient } from '@tanstack/react-query';
import { request } from '../api.ts';
import type { Mark } from './types.ts';

const MARKS_KEY = 'marks';

type Marks = Record<number, Mark>;

/** Marks of the user on some listings, by their IDs. */
export const marksQuery = (ids: readonly number[]) =>
  queryOptions({
    queryKey: [MARKS_KEY, ids],
    queryFn: async ({ signal }): Promise<Marks> => {
      const params = new URLSearchParams({ limit: String(ids.length) });
      for (const id of ids) params.append('listing_id', String(id));
      const marks = await request<Mark[]>(`/marks?${params.toString()}`, { signal });
      return Object.fromEntries(marks.map((mark) => [mark.listing_id, mark]));
    },
    enabled: ids.length > 0,
    staleTime: 60_000,
  });

/** Returns the marks on the listings of several pages. */
export function useMarks(pages: readonly (readonly number[])[]): Marks {
  return useQueries({
    queries: pages.map(marksQuery),
    combine: (results) => Object.assign({}, ...results.map(({ data }) => data)) as Marks,
  });
}

type MarkChange = { id: number; changes: Partial<Omit<Mark, 'listing_id'>> };

/** Returns a function that changes a mark. The change is shown at once, and taken back if it fails. */
export function useChangeMark(): (change: MarkChange) => void {
  const client = useQueryClient();
  const write = (id: number, update: (mark: Mark | undefined) => Mark | undefined) =>
    client.setQueriesData<Marks>(
      {
        predicate: ({ queryKey: [name, ids] }) =>
          name === MARKS_KEY && (ids as readonly number[]).includes(id),
      },
      (marks) => {
        const { [id]: mark, ...others } = marks ?? {};
        const changed = update(mark);
        return changed === undefined ? others : { ...others, [id]: changed };
      },
    );
  const { mutate } = useMutation({
    mutationFn: ({ id, changes }: MarkChange) =>
      request<Mark>(`/listings/${id}/mark`, { method: 'PUT', body: changes }),
    onMutate: ({ id, changes }) =>
      write(id, (mark) => ({ ...createMark(id), ...mark, ...changes })),
    onSuccess: (mark) => write(mark.listing_id, () => mark),
    onError: () => client.invalidateQueries({ queryKey: [MARKS_KEY] }),
  });
  return mutate;
}

const createMark = (id: number): Mark => ({
  listing_id: id,
  status: null,
  rating: null,
  note: null,
  tags: [],
  hidden: false,
  seen: false,
  follow_up_on: null,
});
