import type { Messages } from '../en/index.ts';
import { listings } from './listings.ts';
import { shell } from './shell.ts';

export const uk = { ...shell, listings } satisfies Messages;
