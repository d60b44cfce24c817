import type { Messages } from '../en/index.ts';
import { listings } from './listings.ts';
import { shell } from './shell.ts';

export const ru = { ...shell, listings } satisfies Messages;
