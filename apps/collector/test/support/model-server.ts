import type { ServerResponse } from 'node:http';
import {
  answerAlike,
  type ReceivedRequest,
  sameVector,
  startModelServer as start,
} from '@oselya/model/testing';
import { DIMENSIONS } from './database.ts';

/** Answers a request in another way, or not at all. */
export type Interference = (response: ServerResponse) => void;

/** A model server that a test can take away, have misbehave, and bring back. */
export async function startModelServer() {
  const state: {
    up: boolean;
    /** Whether it embeds, while it is up. */
    embeds: boolean;
    requests: number;
    /** Requests that it crashes on. */
    crashesOn?: ((request: ReceivedRequest) => boolean) | undefined;
    interfere?: Interference | undefined;
  } = { up: true, embeds: true, requests: 0 };
  const answer = answerAlike({ vectorOf: sameVector(DIMENSIONS) });
  const server = await start((request) => {
    state.requests += 1;
    if (state.interfere !== undefined) return { write: state.interfere };
    if (state.crashesOn?.(request) === true) return { status: 500, body: {} };
    const isUp = state.up && (state.embeds || !request.path.endsWith('/embeddings'));
    return isUp ? answer(request) : { status: 503, body: { error: { message: 'overloaded' } } };
  });
  return { ...server, state };
}
