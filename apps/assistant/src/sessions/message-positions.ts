import { cursors } from '@oselya/kit';
import { type Static, Type } from 'typebox';
import { nullable } from '../schema.ts';

const integer = Type.Integer({
  minimum: -Number.MAX_SAFE_INTEGER,
  maximum: Number.MAX_SAFE_INTEGER,
});

const position = Type.Tuple([nullable(integer), integer]);

/** Where a page of messages ended: microseconds since 1970, where that is known, and its number. */
export type MessagePosition = Static<typeof position>;

/** Positions as callers carry them. */
export const messagePositions = cursors(position);
