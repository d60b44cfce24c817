import { queryOptions } from '@tanstack/react-query';
import { request, RequestError } from '../api.ts';

/** Signed-in user. */
export type User = {
  id: string;
  email: string;
  display_name: string;
  role: 'user' | 'admin';
  permissions: string[];
};

/** The signed-in user, or null. */
export const userQuery = queryOptions({
  queryKey: ['user'],
  queryFn: async ({ signal }) => {
    try {
      return await request<User>('/auth/me', { signal });
    } catch (error) {
      if (error instanceof RequestError && error.status === 401) return null;
      throw error;
    }
  },
  staleTime: 60_000,
});

/** Returns whether a user may use what a permission guards. */
export const hasPermission = ({ role, permissions }: User, permission: string): boolean =>
  role === 'admin' || permissions.includes(permission);

const WANTED_KEY = 'oselya-wanted-address';

/** Keeps the address of a page until the user has signed in, because a sign-in returns to `/`. */
export function keepWantedAddress(address: string): void {
  if (address.startsWith('/app/')) sessionStorage.setItem(WANTED_KEY, address);
}

/** Returns the kept address once. */
export function takeWantedAddress(): string | undefined {
  const address = sessionStorage.getItem(WANTED_KEY);
  sessionStorage.removeItem(WANTED_KEY);
  return address?.startsWith('/app/') === true ? address : undefined;
}

/** Tells all tabs of the browser that a session has ended. */
export const sessionChannel = new BroadcastChannel('oselya-session');

/** Ends the session in all tabs. Leads to the provider if it has a session of its own to end. */
export async function signOut(): Promise<void> {
  const { logout_url: logoutUrl } = await request<{ logout_url?: string }>('/auth/logout', {
    method: 'POST',
  });
  sessionChannel.postMessage('ended');
  location.assign(logoutUrl ?? '/');
}
