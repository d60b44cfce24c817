import type { ServerResponse } from 'node:http';
import {
  type Answer,
  constantAnswers,
  completion,
  type ReceivedRequest,
  constantVector,
  startModelServer as start,
} from '@oselya/model/testing';
import { DIMENSIONS } from './database.ts';

export const OVERLOADED = { status: 503, body: { error: { message: 'overloaded' } } };
const DESCRIPTION = { description: 'A bright kitchen.', room_type: 'kitchen', quality: 'good' };
const REFUSAL = { error: { message: 'The image is too small' } };

/** Answers a request in another way, or not at all. */
export type Interference = (response: ServerResponse) => void;

/** A model server that a test can take away, have misbehave, and bring back. */
export async function startModelServer() {
  const state: {
    up: boolean;
    /** Whether it embeds, while it is up. */
    embeds: boolean;
    /** Whether it answers what has a picture, while it is up. */
    sees: boolean;
    requests: number;
    /** Those of them that want a text to be read, and reached it. */
    readings: number;
    /** Requests that it answers with 400. */
    refuses?: ((request: ReceivedRequest) => boolean) | undefined;
    /** Requests that it crashes on. */
    crashesOn?: ((request: ReceivedRequest) => boolean) | undefined;
    interfere?: Interference | undefined;
    /** What it says of a picture in place of its description. */
    saysOf?: ((request: ReceivedRequest) => Answer | undefined) | undefined;
    /** What it answers in place of what it would; nothing leaves that. */
    answers?: ((request: ReceivedRequest) => Answer | undefined) | undefined;
    /** What it does before it answers. */
    delay?: (() => Promise<void>) | undefined;
  } = { up: true, embeds: true, sees: true, requests: 0, readings: 0 };
  const answer = constantAnswers({ vectorOf: constantVector(DIMENSIONS) });
  const server = await start(async (request) => {
    state.requests += 1;
    if (request.path.endsWith('/chat/completions') && !hasPicture(request)) state.readings += 1;
    await state.delay?.();
    if (state.interfere !== undefined) return { write: state.interfere };
    const instead = state.answers?.(request);
    if (instead !== undefined) return instead;
    if (state.refuses?.(request) === true) return { status: 400, body: REFUSAL };
    if (state.crashesOn?.(request) === true) return { status: 500, body: {} };
    const embeds = state.embeds || !request.path.endsWith('/embeddings');
    const sees = state.sees || !hasPicture(request);
    if (!(state.up && embeds && sees)) return OVERLOADED;
    if (!isToDescribe(request)) return answer(request);
    return state.saysOf?.(request) ?? completion(JSON.stringify(DESCRIPTION));
  });
  return { ...server, state };
}

/** Whether a request shows the model a picture, as OpenAI's protocol has it; payloads have `image_urls` too. */
export function hasPicture({ body }: ReceivedRequest): boolean {
  return JSON.stringify(body).includes('"type":"image_url"');
}

/** Whether a request wants a picture to be described, as the pipeline does. */
function isToDescribe(request: ReceivedRequest): boolean {
  return hasPicture(request) && JSON.stringify(request.body).includes('room_type');
}
