import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { json } from 'node:stream/consumers';
import { serveMethods } from '../../process/child.ts';
import type { Document, DocumentFiles } from '../documents.ts';
import type { Question } from '../query.ts';

/** Search library without a server. */
export type EmbeddedEngine = {
  load: (options: { folder: string; files: DocumentFiles }) => Promise<void>;
  open: (folder: string) => Promise<void>;
  /** Returns the hits with their listings, or the counts. */
  search: (question: Question) => unknown;
  insert: (document: Document) => Promise<void>;
};

/** Methods of the process of an embedded engine. */
export type EmbeddedServer = Pick<EmbeddedEngine, 'load' | 'insert'> & {
  /** Opens the data of a folder and answers questions over HTTP. Returns the URL. */
  start: (folder: string) => Promise<string>;
};

/** Serves an embedded engine over HTTP, which gives its searches a round trip like those of other engines. */
export function serveEngine({ load, open, search, insert }: EmbeddedEngine): void {
  const answer = async (request: IncomingMessage) =>
    JSON.stringify(await search((await json(request)) as Question));

  async function start(folder: string): Promise<string> {
    await open(folder);
    const server = createServer((request, response) => {
      answer(request).then(
        (body) => response.end(body),
        (error: unknown) => response.writeHead(500).end(String(error)),
      );
    });
    // A client may reuse a connection after any pause.
    server.keepAliveTimeout = 0;
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    return `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
  }
  serveMethods({ load, insert, start });
}
