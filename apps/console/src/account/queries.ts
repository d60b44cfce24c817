import { infiniteQueryOptions } from '@tanstack/react-query';
import { requestPart } from '../api.ts';

/** Sign-in of the user. */
export type SignIn = {
  id: string;
  created_at: string;
  last_used_at: string;
  current: boolean;
  user_agent: string | null;
  address: string | null;
};

export const signInsQuery = infiniteQueryOptions({
  queryKey: ['sign-ins'],
  queryFn: ({ pageParam, signal }) => requestPart<SignIn[]>(pageParam, { signal }),
  initialPageParam: '/auth/sessions?limit=20',
  getNextPageParam: ({ next }) => next,
});
