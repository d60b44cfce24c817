import { Button, Skeleton, Stack } from '@mantine/core';
import {
  useQueryClient,
  useQueryErrorResetBoundary,
  useSuspenseQuery,
} from '@tanstack/react-query';
import {
  createRootRoute,
  createRoute,
  createRouter,
  type ErrorComponentProps,
  lazyRouteComponent,
  Link,
  redirect,
  useRouter,
} from '@tanstack/react-router';
import { IconMapOff } from '@tabler/icons-react';
import { useEffect, useRef } from 'react';
import { useMessages } from './i18n/language.tsx';
import { EmptyNotice, ProblemNotice } from './shell/problem.tsx';
import { parseParams, writeParams } from './shell/params.ts';
import { Shell } from './shell/shell.tsx';
import { announceSession, takeWantedAddress, userQuery } from './start/session.ts';
import { SignIn } from './start/sign-in.tsx';

const rootRoute = createRootRoute({ component: Root, notFoundComponent: MissingPage });

function Root() {
  const { data: user } = useSuspenseQuery(userQuery);
  const wasSignedIn = useRef(false);
  useEffect(() => {
    if (user !== null) wasSignedIn.current = true;
  }, [user]);
  return user === null ? (
    <SignIn hasEnded={wasSignedIn.current} />
  ) : (
    <Shell key={user.id} user={user} />
  );
}

function MissingPage() {
  const { missingPage, toSearch } = useMessages().error;
  return (
    <EmptyNotice icon={<IconMapOff size={40} stroke={1.3} />} title={missingPage}>
      <Button component={Link} to="/app/search" variant="default">
        {toSearch}
      </Button>
    </EmptyNotice>
  );
}

function FailedPage({ error, reset }: ErrorComponentProps) {
  const router = useRouter();
  const client = useQueryClient();
  const { reset: resetQueries } = useQueryErrorResetBoundary();
  return (
    <Stack p="md" maw={640}>
      <ProblemNotice
        error={error}
        onRetry={() => {
          resetQueries();
          void client.invalidateQueries();
          reset();
          void router.invalidate();
        }}
      />
    </Stack>
  );
}

const PendingPage = () => (
  <Stack aria-busy>
    <Skeleton height={44} />
    <Skeleton height={400} />
  </Stack>
);

const homeRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/',
  beforeLoad: () => {
    // Sign-ins and sign-outs end here.
    announceSession();
    throw redirect({ href: takeWantedAddress() ?? '/app/search' });
  },
});

const LISTINGS_PERMISSION = { permission: 'svc.tools.use' };

const searchRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/app/search',
  staticData: LISTINGS_PERMISSION,
  component: lazyRouteComponent(() => import('./search/page.tsx'), 'SearchPage'),
});

const listingRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/app/listings/$id',
  staticData: LISTINGS_PERMISSION,
  component: lazyRouteComponent(() => import('./listing/page.tsx'), 'ListingPage'),
});

const compareRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/app/compare',
  staticData: LISTINGS_PERMISSION,
  component: lazyRouteComponent(() => import('./compare/page.tsx'), 'ComparePage'),
});

const chatRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/app/chat',
  staticData: { permission: 'svc.profiles.use' },
  component: lazyRouteComponent(() => import('./chat/page.tsx'), 'ChatPage'),
});
const newChatRoute = createRoute({
  getParentRoute: () => chatRoute,
  path: '/',
  component: lazyRouteComponent(() => import('./chat/page.tsx'), 'NewChatPage'),
});
const conversationRoute = createRoute({
  getParentRoute: () => chatRoute,
  path: '$id',
  component: lazyRouteComponent(() => import('./chat/page.tsx'), 'ConversationPage'),
});
const memoryRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/app/memory',
  staticData: { permission: 'svc.memory.read_own' },
  component: lazyRouteComponent(() => import('./memory/page.tsx'), 'MemoryPage'),
});
const accountRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/app/account',
  component: lazyRouteComponent(() => import('./account/page.tsx'), 'AccountPage'),
});
const savedRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/app/saved',
  staticData: LISTINGS_PERMISSION,
  component: lazyRouteComponent(() => import('./saved/page.tsx'), 'SavedPage'),
});
const newSavedRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/app/saved/new',
  staticData: LISTINGS_PERMISSION,
  component: lazyRouteComponent(() => import('./saved/new-page.tsx'), 'NewSavedPage'),
});
const boardsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/app/boards',
  staticData: LISTINGS_PERMISSION,
  component: lazyRouteComponent(() => import('./boards/list-page.tsx'), 'BoardsPage'),
});
const boardRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/app/boards/$id',
  staticData: LISTINGS_PERMISSION,
  component: lazyRouteComponent(() => import('./boards/board-page.tsx'), 'BoardPage'),
});
const personalRoutes = [
  chatRoute.addChildren([newChatRoute, conversationRoute]),
  memoryRoute,
  accountRoute,
  savedRoute,
  newSavedRoute,
  boardsRoute,
  boardRoute,
];

/** Router of the console. Parameters of addresses are texts, and arrays of texts if they are repeated. */
export const router = createRouter({
  routeTree: rootRoute.addChildren([
    homeRoute,
    searchRoute,
    listingRoute,
    compareRoute,
    ...personalRoutes,
  ]),
  parseSearch: parseParams,
  stringifySearch: writeParams,
  defaultPreload: 'intent',
  defaultPendingMs: 150,
  defaultPendingComponent: PendingPage,
  defaultErrorComponent: FailedPage,
  scrollRestoration: true,
});

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}
