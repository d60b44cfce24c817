import type { ServerResponse } from 'node:http';
import type { Answer } from './model-server.ts';

/** A chunk of a streamed chat completion, as OpenAI's protocol has it. */
export function chunk(
  delta: object,
  options: { finishReason?: string | null; model?: string; usage?: object } = {},
): object {
  const { finishReason = null, model = 'test', usage } = options;
  return {
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 1_770_000_000,
    model,
    choices: [{ index: 0, delta, finish_reason: finishReason }],
    ...(usage && { usage }),
  };
}

/** The chunk with which a model asks for a tool. */
export function toolCallChunk(call: { id: string; name: string; arguments: string }): object {
  const { id, name, arguments: text } = call;
  const asked = { index: 0, id, type: 'function', function: { name, arguments: text } };
  return chunk({ tool_calls: [asked] });
}

/** Writes an event of a stream. */
export function writeEvent(response: ServerResponse, data: object | '[DONE]'): void {
  response.write(`data: ${data === '[DONE]' ? data : JSON.stringify(data)}\n\n`);
}

/**
 * A streamed answer.
 * @param chunks Written one after another; a function of them may wait, or end the connection.
 */
export function streamed(
  chunks: readonly (object | ((response: ServerResponse) => Promise<void> | void))[],
): Answer {
  return {
    write(response) {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      void (async () => {
        for (const next of chunks) {
          if (typeof next === 'function') await next(response);
          else writeEvent(response, next);
          if (response.destroyed) return;
        }
        writeEvent(response, '[DONE]');
        response.end();
      })();
    },
  };
}
