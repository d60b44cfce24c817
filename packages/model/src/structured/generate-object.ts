import type { JSONSchema7, LanguageModelV4 } from '@ai-sdk/provider';
import { generateText, type ModelMessage, type OutputInterface } from 'ai';
import type { Static, TSchema } from 'typebox';
import type { ModelAnswer } from '../answers/answer.ts';
import { ModelError } from '../errors.ts';
import type { Exchanger } from '../exchange.ts';
import type { ModelCallEvent } from '../call-event.ts';
import type { CallPolicy } from '../resilience/call-policy.ts';
import { createUsage, readTokens, type Usage } from '../usage.ts';
import { checkAnswer, InvalidAnswer } from './check-answer.ts';
import { instructions, question, repairRequest, type ImageInput } from './prompt.ts';

/** A question to the model whose answer follows a schema. */
export type ObjectRequest<S extends TSchema> = ModelAnswer<S> & {
  /** What the call is for, as metrics name it. */
  operation: string;
  system: string;
  /** Sent as one JSON text. */
  data: unknown;
  /** Shown to the vision model, which then answers instead of the chat model. */
  image?: ImageInput | undefined;
  signal?: AbortSignal | undefined;
  /** Told of each request that is made, beside the client's own observer. */
  observe?: ((event: ModelCallEvent) => void) | undefined;
};

/** A valid answer. */
export type ObjectResult<T> = {
  value: T;
  /** The model's name as the server gave it. */
  model: string;
  usage: Usage;
};

/** What answering an `ObjectRequest` needs. */
export type GenerateObjectDeps = {
  /** The one that answers: another where there is an image. */
  model: LanguageModelV4;
  call: CallPolicy;
  exchange: Exchanger;
};

/**
 * Asks until a valid answer is there. An invalid one is sent back once with what is wrong with it;
 * this repair is not one of the attempts, so one call makes at most one request more than it has
 * attempts, all within one deadline (Contract 4, Model). A server that refuses the schema as the format of
 * its answers is asked without it, from then on.
 *
 * @throws ModelError MODEL_TRUNCATED, MODEL_REFUSED, MODEL_INVALID_OUTPUT and every other code of
 *   a request.
 */
export async function generateObject<S extends TSchema>(
  { model, call, exchange }: GenerateObjectDeps,
  request: ObjectRequest<S>,
): Promise<ObjectResult<Static<S>>> {
  const usage = createUsage();
  const messages: ModelMessage[] = [question(request.data, request.image)];
  let repairing = false;
  // Of the request that was sent last: others may have met the refusal while it was on its way.
  let hadFormat = false;
  const output = rawJson(request);

  const ask = (signal: AbortSignal) => {
    hadFormat = !refusesFormat.has(model);
    return generateText({
      model,
      instructions: instructions(request.system, request.sentSchema),
      messages,
      maxOutputTokens: request.maxOutputTokens,
      ...(hadFormat && { output }),
      maxRetries: 0,
      abortSignal: signal,
    });
  };

  // The conversation outlives an attempt: when the repair meets a failing server, the next attempt
  // goes on with the repair instead of beginning anew.
  const answered = await call(request.signal, async (context) => {
    for (;;) {
      try {
        return await exchange({
          operation: request.operation,
          expected: 'a chat completion. Check that MODEL_CHAT and MODEL_VISION name chat models.',
          context,
          send: ask,
          tokens: (answer) => readTokens(answer.usage),
          read: (answer) => ({
            value: checkAnswer(request.schema, finishedText(answer)),
            model: answer.response.modelId,
          }),
          observe: (event) => {
            usage.add(event);
            request.observe?.(event);
          },
        });
      } catch (error) {
        if (hadFormat && isFormatRefusal(error)) {
          refusesFormat.add(model);
          continue;
        }
        if (repairing || !(error instanceof InvalidAnswer)) throw error;
        repairing = true;
        messages.push(...repairRequest(error));
      }
    }
  });
  return { ...answered, usage: usage.total() };
}

/**
 * The models whose server takes no schema for its answers. It need not: the schema stands in the
 * instructions too, and the answer is checked here.
 */
const refusesFormat = new WeakSet<LanguageModelV4>();

/** Servers that know JSON without a schema, or nothing of it, name the field or its type: 400 or 422. */
function isFormatRefusal(error: unknown): boolean {
  return (
    error instanceof ModelError &&
    (error.status === 400 || error.status === 422) &&
    /response_format|json_schema|structured.?output/i.test(error.message)
  );
}

function finishedText(answer: { text: string; finishReason: string }): string {
  if (answer.finishReason === 'length') {
    throw new ModelError(
      'MODEL_TRUNCATED',
      "The model's answer was cut off at its length limit. Use a model that does not reason at length, or give the server a larger context.",
    );
  }
  if (answer.finishReason === 'content-filter') {
    throw new ModelError('MODEL_REFUSED', 'The model or its content filter refused to answer.');
  }
  return answer.text;
}

/** Asks the server for JSON by a schema, and leaves the answer's text to us. */
function rawJson({
  schemaName: name,
  sentSchema,
}: Pick<ModelAnswer, 'schemaName' | 'sentSchema'>): OutputInterface<string, string, never> {
  // The SDK's type of JSON Schema is not read-only.
  const schema = sentSchema as JSONSchema7;
  return {
    name: 'json',
    responseFormat: Promise.resolve({ type: 'json', name, schema }),
    parseCompleteOutput: async ({ text }) => text,
    parsePartialOutput: async ({ text }) => ({ partial: text }),
    createElementStreamTransform: () => undefined,
  };
}
