import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  redirect,
} from '@tanstack/react-router';
import { useSuspenseQuery } from '@tanstack/react-query';
import { Button, Stack, Title } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useMessages } from './i18n/language.tsx';
import { Shell } from './shell/shell.tsx';
import { SignIn } from './start/sign-in.tsx';
import { takeWantedAddress, userQuery } from './start/session.ts';

const rootRoute = createRootRoute({ component: Root, notFoundComponent: MissingPage });

function Root() {
  const { data: user } = useSuspenseQuery(userQuery);
  return user === null ? <SignIn hasEnded={false} /> : <Shell user={user} />;
}

function MissingPage() {
  const { missingPage, toSearch } = useMessages().error;
  return (
    <Stack align="start">
      <Title order={1}>{missingPage}</Title>
      <Button component={Link} to="/app/search">
        {toSearch}
      </Button>
    </Stack>
  );
}

const homeRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/',
  beforeLoad: () => {
    throw redirect({ href: takeWantedAddress() ?? '/app/search' });
  },
});

const searchRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/app/search',
  component: lazyRouteComponent(() => import('./search/page.tsx'), 'SearchPage'),
});

/** Router of the console. */
export const router = createRouter({
  routeTree: rootRoute.addChildren([homeRoute, searchRoute]),
  defaultPreload: 'intent',
  scrollRestoration: true,
});

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}
