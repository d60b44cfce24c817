import { newestFirst } from '../pages.ts';

/**
 * How new the value of a fact is: when it was written, as far as that is known. The adoption of legacy
 * facts goes by it too.
 */
export const written = newestFirst('updated_at', 'created_at');
