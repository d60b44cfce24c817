import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Static, type TSchema, Type } from 'typebox';
import { Value } from 'typebox/value';
import { commonProblem } from '../problems.ts';

/**
 * Returns the rows of a page. If there is a next page, adds a `Link` header with its URL. Contract 2.
 * @param rows At most `limit` + 1 rows. The extra row indicates a next page.
 * @param getCursor Returns the cursor of the page that follows a row.
 */
export function paginate<Row>(
  rows: readonly Row[],
  options: {
    limit: number;
    getCursor: (row: Row) => number | string;
    request: Pick<FastifyRequest, 'url'>;
    reply: FastifyReply;
  },
): Row[] {
  const { limit, getCursor, ...exchange } = options;
  const page = rows.slice(0, limit);
  const lastRow = page.at(-1);
  if (rows.length > limit && lastRow !== undefined) {
    addNextLink({ limit, cursor: String(getCursor(lastRow)) }, exchange);
  }
  return page;
}

/** Adds a `Link` header with the URL of the next page of a request. Contract 2. */
export function addNextLink(
  { limit, cursor }: { limit: number; cursor: string },
  { request, reply }: { request: Pick<FastifyRequest, 'url'>; reply: FastifyReply },
): void {
  // Only the first question mark ends the path. Query values may contain more of them.
  const [path = '', ...queryParts] = request.url.split('?');
  const parameters = new URLSearchParams(queryParts.join('?'));
  parameters.set('limit', String(limit));
  parameters.set('cursor', cursor);
  void reply.header('link', `<${path}?${parameters.toString()}>; rel="next"`);
}

const INVALID_CURSOR_ERROR = {
  path: 'querystring/cursor',
  message: 'must be the cursor from the Link header of an earlier page',
};

/**
 * Creates a codec for cursors, which clients treat as opaque text.
 * @param positionSchema Schema of the encoded position: the sort key of the last row of a page.
 * @param cursorError Error for an invalid cursor.
 */
export function createCursorCodec<Position extends TSchema>(
  positionSchema: Position,
  cursorError = INVALID_CURSOR_ERROR,
) {
  return {
    write: (value: Static<Position>): string =>
      Buffer.from(JSON.stringify(value)).toString('base64url'),
    /** Reads a cursor. Throws ProblemError `validation_failed` if it is invalid. */
    read(text: string | undefined): Static<Position> | undefined {
      if (text === undefined) return undefined;
      const value = decodeCursor(text);
      if (!Value.Check(positionSchema, value)) {
        throw commonProblem('validation_failed', { errors: [cursorError] });
      }
      return value;
    },
  };
}

function decodeCursor(text: string): unknown {
  try {
    return JSON.parse(Buffer.from(text, 'base64url').toString());
  } catch {
    return undefined;
  }
}

/** Returns the schemas of the query parameters `limit` and `cursor`. Contract 2. */
export function createPageQuery({ limit, maxLimit }: { limit: number; maxLimit: number }) {
  return {
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: maxLimit, default: limit })),
    cursor: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 1024,
        description: 'Cursor from the `Link` header of the previous page.',
      }),
    ),
  };
}
