import type { ServerResponse } from 'node:http';
import {
  createConstantHandler,
  completion,
  LISTING,
  type ReceivedRequest,
  constantVector,
  startModelServer,
} from '@oselya/model/testing';
import { DIMENSIONS } from '../support/pipeline.ts';

/** The kind of a request to the model. */
export type Asked = 'reading' | 'describing' | 'embedding';

/** A moment of a request to the model: before or after its response. */
export type CallMoment = {
  asked: Asked;
  when: 'before' | 'after';
  /** A text within the request; any request by default. */
  about?: string;
};

const DESCRIPTION = { description: 'Кухня.', room_type: 'kitchen', quality: 'good' };
const answerOthers = createConstantHandler({ vectorOf: constantVector(DIMENSIONS) });

/**
 * Starts a model server that reads listings, rejects phone repairs, describes images and embeds.
 * @param moment Calls a function at this moment; the first such request has no response before
 *   it.
 * @returns The server with its number of requests.
 */
export async function startAnsweringServer(moment?: CallMoment & { onMoment: () => void }) {
  const state = { requests: 0 };
  const server = await startModelServer((request) => {
    state.requests += 1;
    const answer = answerTo(request);
    if (moment === undefined || !isMoment(request, moment)) return answer;
    if (moment.when === 'before') {
      moment.onMoment();
      return 'silence';
    }
    return {
      write(response: ServerResponse) {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(JSON.stringify(answer.body), moment.onMoment);
      },
    };
  });
  return { ...server, state };
}

function isMoment(request: ReceivedRequest, { asked, about = '' }: CallMoment): boolean {
  return kindOf(request) === asked && JSON.stringify(request.body).includes(about);
}

function kindOf({ path, body }: ReceivedRequest): Asked {
  if (path.endsWith('/embeddings')) return 'embedding';
  return JSON.stringify(body).includes('"type":"image_url"') ? 'describing' : 'reading';
}

function answerTo(request: ReceivedRequest): { body: unknown } {
  const asked = kindOf(request);
  if (asked === 'describing') return bodyOf(completion(JSON.stringify(DESCRIPTION)));
  if (asked === 'reading' && JSON.stringify(request.body).includes('Ремонтуємо')) {
    const reason = 'It is about repairs of telephones.';
    return bodyOf(completion(JSON.stringify({ ...LISTING, is_listing: false, reason })));
  }
  return bodyOf(answerOthers(request));
}

function bodyOf(answer: ReturnType<typeof completion>): { body: unknown } {
  if (typeof answer === 'string' || !('body' in answer)) throw new Error('There is no answer');
  return { body: answer.body };
}
