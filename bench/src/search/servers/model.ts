import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { createVectors } from '../../listings/vector.ts';
import { EMBEDDING_MODEL } from '../../listings/rows.ts';
import { answerParent } from '../../process/child.ts';
import { vectorOfText } from '../questions.ts';

const methods = { start };
export type ModelServer = typeof methods;
answerParent(methods);

/**
 * Starts a model server that embeds texts where the listings are, without a delay.
 * @returns The address for MODEL_BASE_URL.
 */
async function start({ dimensions }: { dimensions: number }): Promise<string> {
  const vectors = createVectors(dimensions);

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { input } = (await json(request)) as { input: string[] };
    const data = input.map((text, index) => ({ index, embedding: vectorOfText(vectors, text) }));
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ model: EMBEDDING_MODEL, data, usage: { prompt_tokens: 1 } }));
  }

  const server = createServer((request, response) => void answer(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
}
