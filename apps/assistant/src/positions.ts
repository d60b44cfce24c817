import { cursors } from '@oselya/kit';
import { type Static, Type } from 'typebox';
import { nullable, storableText } from './schema.ts';

// No id is nearly as long: a cursor's text has 1,024 characters at most.
const position = Type.Tuple([
  nullable(Type.Integer({ minimum: -Number.MAX_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER })),
  storableText({ maxLength: 1024 }),
]);

/**
 * Where a page ended: microseconds since 1970, which a JavaScript Date would cut off, or null where a
 * row has no time; and the row's id.
 */
export type Position = Static<typeof position>;

/** Positions as callers carry them. */
export const positions = cursors(position);
