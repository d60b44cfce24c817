import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Static, type TSchema, Type } from 'typebox';
import { Value } from 'typebox/value';
import { commonProblem } from '../common-errors.ts';

/**
 * Cuts a page out of rows, and names the next page in the answer's `Link`: the same address with the
 * cursor of that page. Contract 2.
 * @param rows Up to one more than `limit`: that one shows that there is a next page.
 * @param cursorOf Where the page that ends with a row goes on.
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

/** What a list page answers to a text that is none of its cursors. */
const NO_CURSOR = {
  path: 'querystring/cursor',
  message: 'must be the cursor from the Link header of an earlier page',
};

/**
 * Cursors: an opaque text for callers, checked when it comes back.
 * @param position What a cursor holds: the sort key of the last row of a page.
 * @param refusal Where a request has its cursor, and what a text that is none is told.
 */
export function cursors<Position extends TSchema>(position: Position, refusal = NO_CURSOR) {
  return {
    write: (value: Static<Position>): string =>
      Buffer.from(JSON.stringify(value)).toString('base64url'),
    /** @throws ProblemError `validation_failed` where the text is no cursor. */
    read(text: string | undefined): Static<Position> | undefined {
      if (text === undefined) return undefined;
      const value = decode(text);
      if (!Value.Check(position, value)) {
        throw commonProblem('validation_failed', { errors: [refusal] });
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

/** The query members of a list page; a route adds its own beside them. Contract 2. */
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
