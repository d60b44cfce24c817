import { deferCleanup } from '@oselya/testing';
import {
  type ScriptedResponse,
  chunk,
  type ReceivedRequest,
  startModelServer,
  createStreamedResponse,
  createToolCallChunk,
} from '@oselya/model/testing';

/** An answer of the model: streamed words, calls of tools, or any other answer. */
export type Script =
  | { words: readonly (string | Promise<unknown>)[]; finishReason?: string }
  | { tools: readonly { name: string; arguments: object }[] }
  | { answer: ScriptedResponse };

/** A received chat request. */
export type Conversation = {
  messages: { role: string; content: unknown; tool_calls?: unknown; tool_call_id?: unknown }[];
  tools?: { function: { name: string } }[];
};

/** Starts a model server that answers with the scripts of a test, "Готово." by default, titles and summaries. */
export async function startScriptedModel() {
  const scripts: (Script | ((conversation: Conversation) => Script))[] = [];
  const seen: Conversation[] = [];
  const summaries: Script[] = [];
  const summarized: Conversation[] = [];
  let calls = 0;
  const server = await startModelServer(({ path, body }: ReceivedRequest): ScriptedResponse => {
    // Health checks list the models.
    if (path.endsWith('/models')) return { body: { data: [] } };
    const conversation = body as Conversation;
    if (begins(conversation, 'Give the conversation')) {
      model.titles += 1;
      return model.titleAnswer ?? words([model.titled, 'Назва']);
    }
    if (begins(conversation, 'Summarize a conversation')) {
      summarized.push(conversation);
      return play(summaries.shift() ?? { words: [`Підсумок ${summarized.length}.`] });
    }
    seen.push(conversation);
    const next = scripts.shift() ?? { words: ['Готово.'] };
    return play(typeof next === 'function' ? next(conversation) : next);
  });
  function play(script: Script): ScriptedResponse {
    if ('answer' in script) return script.answer;
    if ('words' in script) return words(script.words, script.finishReason);
    const asked = script.tools.map((tool) => {
      calls += 1;
      const { name, arguments: input } = tool;
      return createToolCallChunk({ id: `call-${calls}`, name, arguments: JSON.stringify(input) });
    });
    return createStreamedResponse([...asked, chunk({}, { finishReason: 'tool_calls' })]);
  }
  deferCleanup(() => server.close());
  const model = {
    url: server.url,
    /** The number of requests for a title. */
    titles: 0,
    /** Promise that delays each title. */
    titled: Promise.resolve(),
    /** Replaces the title. */
    titleAnswer: undefined as ScriptedResponse | undefined,
    scripts,
    /** The chat requests. */
    seen,
    /** The answers to requests for a summary; numbered ones by default. */
    summaries,
    /** The requests for a summary. */
    summarized,
    env: { MODEL_MODE: 'openai', MODEL_BASE_URL: server.url, MODEL_CHAT: 'test' },
  };
  return model;
}

function words(
  parts: readonly (string | Promise<unknown>)[],
  finishReason = 'stop',
): ScriptedResponse {
  return createStreamedResponse([
    ...parts.map((part) =>
      typeof part === 'string' ? chunk({ content: part }) : () => part.then(() => undefined),
    ),
    chunk({}, { finishReason }),
  ]);
}

const begins = ({ messages }: Conversation, instructions: string) =>
  JSON.stringify(messages[0]?.content).includes(`"${instructions}`);

/** Creates a promise that a test resolves. */
export function gate(): { opened: Promise<void>; open: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}
