import { Anchor, AppShell, Group, Stack, Text, UnstyledButton } from '@mantine/core';
import { Link, Outlet } from '@tanstack/react-router';
import { useMessages } from '../i18n/language.tsx';
import type { User } from '../start/session.ts';
import { Logo } from './logo.tsx';
import { CommandPalette } from './palette.tsx';
import { listPages, type Page } from './pages.ts';
import classes from './shell.module.css';

/** Number of pages in the bar at the bottom of a narrow window. The others are in the command palette. */
const PAGES_IN_BAR = 5;

/** Frame of all pages: a rail at the left, or a bar at the bottom of a narrow window. */
export function Shell({ user }: { user: User }) {
  const messages = useMessages();
  const pages = listPages(user);
  return (
    <AppShell
      navbar={{ width: 88, breakpoint: 'sm', collapsed: { mobile: true } }}
      footer={{ height: { base: 60, sm: 0 } }}
      padding="md"
    >
      <Anchor href="#content" className={classes.skip}>
        {messages.skipToContent}
      </Anchor>
      <AppShell.Navbar p="xs">
        <Stack align="center" gap="xs">
          <Link to="/app/search" aria-label="Oselya">
            <Logo />
          </Link>
          {pages.map((page) => (
            <PageLink key={page.path} page={page} />
          ))}
        </Stack>
      </AppShell.Navbar>
      <AppShell.Main id="content" tabIndex={-1}>
        <Outlet />
      </AppShell.Main>
      <AppShell.Footer hiddenFrom="sm">
        <Group component="nav" grow h="100%" gap={0} wrap="nowrap">
          {pages.slice(0, PAGES_IN_BAR).map((page) => (
            <PageLink key={page.path} page={page} />
          ))}
        </Group>
      </AppShell.Footer>
      <CommandPalette pages={pages} />
    </AppShell>
  );
}

function PageLink({ page: { path, label, icon: Icon } }: { page: Page }) {
  const messages = useMessages();
  return (
    <UnstyledButton component={Link} to={path} className={classes.page}>
      <Icon size={22} stroke={1.7} aria-hidden />
      <Text size="xs" ta="center" lh={1.15} lineClamp={2}>
        {label(messages)}
      </Text>
    </UnstyledButton>
  );
}
