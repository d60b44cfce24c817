import type { Session } from '@oselya/chat-client';
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import { request, requestPart } from '../api.ts';

/** Time between two checks for sessions of other devices and digests, in milliseconds. */
const SESSIONS_INTERVAL_MS = 60_000;

/** Sessions of the user, most recently active first. */
export const sessionsQuery = (userId: string) =>
  infiniteQueryOptions({
    queryKey: ['sessions'],
    queryFn: ({ pageParam, signal }) => requestPart<Session[]>(pageParam, { signal }),
    initialPageParam: `/sessions?${new URLSearchParams({ user_id: userId, limit: '50' })}`,
    getNextPageParam: ({ next }) => next,
    refetchInterval: SESSIONS_INTERVAL_MS,
  });

/** Hit of a search in the user's own conversations. `message_id` is null if the name of the session matches. */
export type ConversationHit = {
  session_id: string;
  session_name: string;
  message_id: string | null;
  created_at: string | null;
  highlight: string;
};

export const conversationSearchQuery = (words: string) =>
  infiniteQueryOptions({
    queryKey: ['conversation-search', words],
    queryFn: ({ pageParam, signal }) => requestPart<ConversationHit[]>(pageParam, { signal }),
    initialPageParam: `/me/search?${new URLSearchParams({ q: words })}`,
    getNextPageParam: ({ next }) => next,
    enabled: /[\p{L}\p{N}]/u.test(words),
    placeholderData: (previous) => previous,
  });

export type Profile = { profile_id: string; name: string; description: string; fault?: string };

export const profilesQuery = queryOptions({
  queryKey: ['profiles'],
  queryFn: ({ signal }) => request<Profile[]>('/profiles', { signal }),
  staleTime: 60_000,
});
