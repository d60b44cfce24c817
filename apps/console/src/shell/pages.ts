import {
  type Icon,
  IconBookmark,
  IconBrain,
  IconLayoutKanban,
  IconMessageCircle,
  IconScale,
  IconSearch,
  IconUser,
} from '@tabler/icons-react';
import type { Messages } from '../i18n/en/index.ts';
import { hasPermission, type User } from '../start/session.ts';

/** Page of the console's navigation. */
export type Page = {
  path: string;
  label: (messages: Messages) => string;
  icon: Icon;
  /** Letter that follows `g` on the keyboard. */
  key: string;
  /** Permission without which the page is not offered. */
  permission?: string;
};

const PAGES: readonly Page[] = [
  {
    path: '/app/search',
    label: ({ search }) => search,
    icon: IconSearch,
    key: 's',
    permission: 'svc.tools.use',
  },
  {
    path: '/app/saved',
    label: ({ saved }) => saved,
    icon: IconBookmark,
    key: 'f',
    permission: 'svc.tools.use',
  },
  {
    path: '/app/boards',
    label: ({ boards }) => boards,
    icon: IconLayoutKanban,
    key: 'b',
    permission: 'svc.tools.use',
  },
  {
    path: '/app/chat',
    label: ({ chat }) => chat,
    icon: IconMessageCircle,
    key: 'c',
    permission: 'svc.profiles.use',
  },
  {
    path: '/app/compare',
    label: ({ compare }) => compare,
    icon: IconScale,
    key: 'v',
    permission: 'svc.tools.use',
  },
  {
    path: '/app/memory',
    label: ({ memory }) => memory,
    icon: IconBrain,
    key: 'r',
    permission: 'svc.memory.read_own',
  },
  { path: '/app/account', label: ({ account }) => account, icon: IconUser, key: 'u' },
];

/** Lists the pages that a user may open. */
export const listPages = (user: User): readonly Page[] =>
  PAGES.filter(({ permission }) => permission === undefined || hasPermission(user, permission));
