import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import { request, requestPart } from '../api.ts';
import type { Status } from '../listings/types.ts';

export type Role = 'owner' | 'editor' | 'viewer';

export const VERDICTS = ['yes', 'maybe', 'no'] as const;
export type Verdict = (typeof VERDICTS)[number];

/** Board; the role is null for an administrator who is no member. */
export type Board = {
  id: string;
  name: string;
  role: Role | null;
  member_count: number;
  item_count: number;
};

export type Member = { user_id: string; display_name: string; role: Role };

/** Listing of a board. */
export type Item = {
  listing_id: number;
  status: Status | null;
  note: string | null;
  comment_count: number;
  verdicts: { user_id: string; verdict: Verdict }[];
};

export type OpenBoard = Board & { members: Member[]; items: Item[] };

export type Comment = {
  id: string;
  user_id: string;
  display_name: string;
  text: string;
  created_at: string;
};

export const boardsQuery = infiniteQueryOptions({
  queryKey: ['boards'],
  queryFn: ({ pageParam, signal }) => requestPart<Board[]>(pageParam, { signal }),
  initialPageParam: '/boards?limit=50',
  getNextPageParam: ({ next }) => next,
});

/** Time between two checks for changes of other members, in milliseconds. */
const BOARD_INTERVAL_MS = 30_000;

export const boardQuery = (id: string) =>
  queryOptions({
    queryKey: ['boards', id],
    queryFn: ({ signal }) => request<OpenBoard>(`/boards/${id}`, { signal }),
    refetchInterval: BOARD_INTERVAL_MS,
  });

export const commentsQuery = (path: string) =>
  queryOptions({
    queryKey: ['boards', 'comments', path],
    queryFn: ({ signal }) => request<Comment[]>(`${path}/comments`, { signal }),
  });
