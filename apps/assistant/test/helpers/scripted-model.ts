import { deferCleanup } from '@oselya/testing';
import {
  type ScriptedResponse,
  createChunk,
  type ReceivedRequest,
  startModelServer,
  createStreamedResponse,
  createToolCallChunk,
} from '@oselya/model/testing';

/** Scripted answer of the model: streamed words, tool calls, or another response. */
export type Script =
  | { words: readonly (string | Promise<unknown>)[]; finishReason?: string }
  | { tools: readonly { name: string; arguments: object }[] }
  | { answer: ScriptedResponse };

export type Conversation = {
  messages: { role: string; content: unknown; tool_calls?: unknown; tool_call_id?: unknown }[];
  tools?: { function: { name: string } }[];
};

/** Starts a model server that answers with the scripts of a test, and with default answers, titles and summaries. */
export async function startScriptedModel() {
  const scripts: (Script | ((conversation: Conversation) => Script))[] = [];
  const chatRequests: Conversation[] = [];
  const summaries: Script[] = [];
  const summaryRequests: Conversation[] = [];
  let callCount = 0;
  const server = await startModelServer(({ path, body }: ReceivedRequest): ScriptedResponse => {
    // Health checks list the models, and use no script.
    if (path.endsWith('/models')) return { body: { data: [] } };
    const conversation = body as Conversation;
    if (hasInstructions(conversation, 'Give the conversation')) {
      return model.titleAnswer ?? createWordResponse([model.titleDelay, 'Назва']);
    }
    if (hasInstructions(conversation, 'Summarize a conversation')) {
      summaryRequests.push(conversation);
      return play(summaries.shift() ?? { words: [`Підсумок ${summaryRequests.length}.`] });
    }
    chatRequests.push(conversation);
    const script = scripts.shift() ?? { words: ['Готово.'] };
    return play(typeof script === 'function' ? script(conversation) : script);
  });
  function play(script: Script): ScriptedResponse {
    if ('answer' in script) return script.answer;
    if ('words' in script) return createWordResponse(script.words, script.finishReason);
    const toolCalls = script.tools.map((tool) => {
      callCount += 1;
      const { name, arguments: input } = tool;
      const id = `call-${callCount}`;
      return createToolCallChunk({ id, name, arguments: JSON.stringify(input) });
    });
    return createStreamedResponse([...toolCalls, createChunk({}, { finishReason: 'tool_calls' })]);
  }
  deferCleanup(() => server.close());
  const model = {
    url: server.url,
    /** Promise that delays each title. */
    titleDelay: Promise.resolve(),
    /** Response that replaces the title. */
    titleAnswer: undefined as ScriptedResponse | undefined,
    scripts,
    chatRequests,
    /** Answers to the next summary requests. Without a script, a summary contains its number. */
    summaries,
    /** Received summary requests. */
    summaryRequests,
    env: { MODEL_MODE: 'openai', MODEL_BASE_URL: server.url, MODEL_CHAT: 'test' },
  };
  return model;
}

function createWordResponse(
  parts: readonly (string | Promise<unknown>)[],
  finishReason = 'stop',
): ScriptedResponse {
  return createStreamedResponse([
    ...parts.map((part) =>
      typeof part === 'string' ? createChunk({ content: part }) : () => part.then(() => undefined),
    ),
    createChunk({}, { finishReason }),
  ]);
}

const hasInstructions = ({ messages }: Conversation, instructions: string) =>
  JSON.stringify(messages[0]?.content).includes(`"${instructions}`);

/** Creates a promise and the function that resolves it. */
export function createGate(): { opened: Promise<void>; open: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}
