import { listings } from './listings.ts';
import { shell } from './shell.ts';

/** Texts of the console in English. The other languages have the same keys. Each part has a file of its own. */
export const en = { ...shell, listings };

/** Texts of the console in one language. */
export type Messages = typeof en;
