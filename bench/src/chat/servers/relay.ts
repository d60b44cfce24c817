import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type WebSocket, WebSocketServer } from 'ws';
import { serve } from '../../process/server.ts';

export type RelaySettings = { modelUrl: string };

/**
 * Minimal relay, which forwards each token on arrival and has no users, storage, tools, cancellation or resumption. Its
 * latency and memory are the lower bound for the assistant.
 */
serve(async ({ modelUrl }: RelaySettings) => {
  const server = createServer();
  const sockets = new WebSocketServer({ server, path: '/ws', perMessageDeflate: false });
  sockets.on('connection', (socket) => {
    socket.on('message', (data) => {
      // `ws` passes each message as a Buffer by default.
      const { session_id: sessionId, text } = JSON.parse(
        (data as Buffer).toString(),
      ) as MessageRequest;
      void answer(socket, modelUrl, { sessionId, text });
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

type MessageRequest = { session_id: string; text: string };

async function answer(
  socket: WebSocket,
  modelUrl: string,
  { sessionId, text }: { sessionId: string; text: string },
): Promise<void> {
  const response = await fetch(`${modelUrl}/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ stream: true, messages: [{ role: 'user', content: text }] }),
  });
  let seq = 0;
  const send = (frame: object) => {
    seq += 1;
    socket.send(JSON.stringify({ ...frame, session_id: sessionId, seq }));
  };
  send({ type: 'message.started' });
  let content = '';
  for await (const token of readTokens(response)) {
    content += token;
    send({ type: 'message.delta', text: token });
  }
  send({ type: 'message.completed', message: { content } });
}

async function* readTokens({ body }: Response): AsyncGenerator<string> {
  let buffer = '';
  for await (const part of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    const lines = (buffer + part).split('\n\n');
    buffer = lines.pop() ?? '';
    for (const line of lines) {
      if (line === 'data: [DONE]') return;
      const { choices } = JSON.parse(line.slice('data: '.length)) as Chunk;
      const token = choices[0]?.delta.content;
      if (token !== undefined) yield token;
    }
  }
}

type Chunk = { choices: { delta: { content?: string } }[] };
