import { queryOptions, useMutation, useQueryClient } from '@tanstack/react-query';
import { request } from '../api.ts';
import type { Language } from '../i18n/messages.ts';

/** Settings of the user. Null leaves the choice to the browser or to the listing. */
export type Settings = {
  language: Language | null;
  theme: 'light' | 'dark' | 'auto';
  single_letter_keys: boolean;
  currency: string | null;
};

/** Settings of the user, which are the same in all browsers. */
export const settingsQuery = queryOptions({
  queryKey: ['settings'],
  queryFn: ({ signal }) => request<Settings>('/me/settings', { signal }),
  staleTime: Infinity,
});

/** Returns a mutation that changes some of the settings. */
export function useSaveSettings() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (changes: Partial<Settings>) =>
      request<Settings>('/me/settings', { method: 'PATCH', body: changes }),
    onSuccess: (settings) => client.setQueryData(settingsQuery.queryKey, settings),
  });
}
