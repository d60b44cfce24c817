import { listings } from './listings.ts';
import { shell } from './shell.ts';

/** Texts of the console in English, with a file for each part. The other languages have the same keys. */
export const en = { ...shell, listings };

/** Texts of the console in one language. */
export type Messages = typeof en;
