import { type QueryClient, queryOptions } from '@tanstack/react-query';
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
  queryFn: async ({ client, signal }): Promise<User | null> => {
    try {
      const user = await request<User>('/auth/me', { signal });
      const previousUser = client.getQueryData<User | null>(['user']);
      if (previousUser && previousUser.id !== user.id) removeUserData(client);
      return user;
    } catch (error) {
      if (!isSignedOut(error)) throw error;
      removeUserData(client);
      return null;
    }
  },
  staleTime: 60_000,
});

/** Returns whether an error says that the session has ended. */
export const isSignedOut = (error: unknown): boolean =>
  error instanceof RequestError && error.status === 401;

/** Removes everything that was loaded for a user. The texts of the console remain. */
function removeUserData(client: QueryClient): void {
  client.removeQueries({
    predicate: ({ queryKey: [name] }) => name !== 'user' && name !== 'messages',
  });
}

/** Shows the sign-in page in all tabs, after a response has said that the session has ended. */
export function endSession(client: QueryClient): void {
  client.setQueryData(userQuery.queryKey, null);
  removeUserData(client);
  announceSession();
}

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

const sessionChannel = new BroadcastChannel('oselya-session');

/** Tells the other tabs of the browser that a session has begun or ended. */
export function announceSession(): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- A channel has no target.
  sessionChannel.postMessage('changed');
}

/** Requests the user again whenever another tab announces a change. */
export function followSession(client: QueryClient): void {
  sessionChannel.addEventListener('message', () => {
    void client.invalidateQueries({ queryKey: userQuery.queryKey });
  });
}

/** Ends the session in all tabs, then opens the provider's sign-out page if there is one. */
export async function signOut(): Promise<void> {
  const { logout_url: logoutUrl } = await request<{ logout_url?: string }>('/auth/logout', {
    method: 'POST',
  }).catch((error: unknown) => {
    if (isSignedOut(error)) return { logout_url: undefined };
    throw error;
  });
  announceSession();
  location.assign(logoutUrl ?? '/');
}
