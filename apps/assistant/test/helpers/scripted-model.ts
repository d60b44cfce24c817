import { atEnd } from '@oselya/db/testing';
import {
  type Answer,
  chunk,
  type ReceivedRequest,
  startModelServer,
  streamed,
  toolCallChunk,
} from '@oselya/model/testing';

/** What the model says to one request: words one after another, tools that it asks for, or another answer. */
export type Script =
  | { words: readonly (string | Promise<unknown>)[]; finishReason?: string }
  | { tools: readonly { name: string; arguments: object }[] }
  | { answer: Answer };

/** A request for a conversation, as the model saw it. */
export type Conversation = {
  messages: { role: string; content: unknown; tool_calls?: unknown; tool_call_id?: unknown }[];
  tools?: { function: { name: string } }[];
};

/**
 * A model server that says what a test has written: the next script for the next request, "Готово." where
 * there is none, a title to whoever asks for one, and summaries.
 */
export async function startScriptedModel() {
  const scripts: (Script | ((conversation: Conversation) => Script))[] = [];
  const seen: Conversation[] = [];
  const summaries: Script[] = [];
  const summarized: Conversation[] = [];
  let calls = 0;
  const server = await startModelServer(({ path, body }: ReceivedRequest): Answer => {
    // Health checks ask for the models.
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
  function play(script: Script): Answer {
    if ('answer' in script) return script.answer;
    if ('words' in script) return words(script.words, script.finishReason);
    const asked = script.tools.map((tool) => {
      calls += 1;
      const { name, arguments: input } = tool;
      return toolCallChunk({ id: `call-${calls}`, name, arguments: JSON.stringify(input) });
    });
    return streamed([...asked, chunk({}, { finishReason: 'tool_calls' })]);
  }
  atEnd(() => server.close());
  const model = {
    url: server.url,
    /** How many titles were asked for. */
    titles: 0,
    /** What they wait for. */
    titled: Promise.resolve(),
    /** What comes in place of a title. */
    titleAnswer: undefined as Answer | undefined,
    scripts,
    /** Every conversation that it was asked to go on with. */
    seen,
    /** What it says to requests for a summary, in their order; without one it counts them. */
    summaries,
    /** Every such request. */
    summarized,
    env: { MODEL_MODE: 'openai', MODEL_BASE_URL: server.url, MODEL_CHAT: 'test' },
  };
  return model;
}

function words(parts: readonly (string | Promise<unknown>)[], finishReason = 'stop'): Answer {
  return streamed([
    ...parts.map((part) =>
      typeof part === 'string' ? chunk({ content: part }) : () => part.then(() => undefined),
    ),
    chunk({}, { finishReason }),
  ]);
}

const begins = ({ messages }: Conversation, instructions: string) =>
  JSON.stringify(messages[0]?.content).includes(`"${instructions}`);

/** Something to wait for, which a test lets go. */
export function gate(): { opened: Promise<void>; open: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}
