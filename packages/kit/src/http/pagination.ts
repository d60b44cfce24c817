import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Static, type TSchema, Type } from 'typebox';
import { Value } from 'typebox/value';
import { commonProblem } from '../problems.ts';

/**
 * Returns the page of some rows, and adds a `Link` to the next page: the same address with its cursor. Contract 2.
 * @param rows Up to one more than `limit`, which shows that there is a next page.
 * @param cursorOf Returns the cursor of the page after a row.
 */
export function toPage<Row>(
  rows: readonly Row[],
  options: {
    limit: number;
    cursorOf: (row: Row) => number | string;
    request: Pick<FastifyRequest, 'url'>;
    reply: FastifyReply;
  },
): Row[] {
  const { limit, cursorOf, request, reply } = options;
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  if (rows.length > limit && last !== undefined) {
    // Only the first question mark ends the path: values may have others.
    const [path = '', ...query] = request.url.split('?');
    const parameters = new URLSearchParams(query.join('?'));
    parameters.set('limit', String(limit));
    parameters.set('cursor', String(cursorOf(last)));
    void reply.header('link', `<${path}?${parameters.toString()}>; rel="next"`);
  }
  return page;
}

/** The error of an invalid cursor. */
const INVALID_CURSOR = {
  path: 'querystring/cursor',
  message: 'must be the cursor from the Link header of an earlier page',
};

/**
 * Creates the codec of cursors: opaque text for clients, checked when it comes back.
 * @param position Schema of the position: the sort key of the last row of a page.
 * @param invalid Where a request has its cursor, and the message for an invalid one.
 */
export function cursors<Position extends TSchema>(position: Position, invalid = INVALID_CURSOR) {
  return {
    write: (value: Static<Position>): string =>
      Buffer.from(JSON.stringify(value)).toString('base64url'),
    /** @throws ProblemError `validation_failed` for an invalid cursor. */
    read(text: string | undefined): Static<Position> | undefined {
      if (text === undefined) return undefined;
      const value = decode(text);
      if (!Value.Check(position, value)) {
        throw commonProblem('validation_failed', { errors: [invalid] });
      }
      return value;
    },
  };
}

function decode(text: string): unknown {
  try {
    return JSON.parse(Buffer.from(text, 'base64url').toString());
  } catch {
    return undefined;
  }
}

/** Returns the query parameters of every list page. Contract 2. */
export function pageQuery({ limit, maxLimit }: { limit: number; maxLimit: number }) {
  return {
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: maxLimit, default: limit })),
    cursor: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 1024,
        description: 'From the `Link` of the page before.',
      }),
    ),
  };
}
