import type { FastifyReply, FastifyRequest } from 'fastify';

/**
 * Cuts a page out of rows, and names the next page in the answer's `Link`. Contract 2.
 * @param rows Up to one more than `limit`: that one shows that there is a next page.
 * @param cursorOf Where the page that ends with a row goes on.
 */
export function toPage<Row>(
  rows: readonly Row[],
  options: {
    limit: number;
    cursorOf: (row: Row) => number;
    request: Pick<FastifyRequest, 'url'>;
    reply: FastifyReply;
  },
): Row[] {
  const { limit, cursorOf, request, reply } = options;
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  if (rows.length > limit && last !== undefined) {
    const path = request.url.split('?', 1)[0];
    const next = `${path}?limit=${limit}&cursor=${cursorOf(last)}`;
    void reply.header('link', `<${next}>; rel="next"`);
  }
  return page;
}
