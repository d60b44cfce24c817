import { setTimeout as sleep } from 'node:timers/promises';
import type { Payload } from '../../src/payload/schema.ts';

/** A request that has no answer by then is asked again, as a client does. */
const PATIENCE_MS = 15_000;
const PAUSE_MS = 20;
/** Few listings, so that their payloads come again and have to wait for one another. */
const LISTINGS = 60;

type Result = {
  /** What was accepted, by its key: the record's id. */
  accepted: Map<string, number>;
  /** Requests without an answer, and those that were answered that the database is away. */
  unanswered: number;
  unavailable: number;
  /** Everything else, which there should be none of. */
  wrong: string[];
};

/**
 * Sends payloads over so many connections, to each of the collectors in turn, and each payload again, to
 * the other one, until it is accepted, under an idempotency key of its own.
 */
export function startIngest(source: string, urls: readonly string[], connections: number) {
  const result: Result = { accepted: new Map(), unanswered: 0, unavailable: 0, wrong: [] };
  const stopping = new AbortController();
  let made = 0;

  async function send(url: string, key: string, payload: Payload): Promise<boolean> {
    try {
      const response = await fetch(`${url}/api/v1/ingest`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'idempotency-key': key },
        body: JSON.stringify(payload),
        signal: AbortSignal.timeout(PATIENCE_MS),
      });
      const text = await response.text();
      if (response.status === 202) {
        result.accepted.set(key, (JSON.parse(text) as { raw_id: number }).raw_id);
        return true;
      }
      if (text.includes('"ingest_failed"')) result.unavailable += 1;
      else result.wrong.push(`${response.status} ${text}`);
    } catch {
      result.unanswered += 1;
    }
    return false;
  }

  async function sendOnAndOn(): Promise<void> {
    while (!stopping.signal.aborted) {
      const nth = (made += 1);
      const payload = payloadOf(source, nth);
      for (let turn = nth; ; turn += 1) {
        const url = urls[turn % urls.length] ?? '';
        if (await send(url, `${source}-${nth}`, payload)) break;
        await sleep(PAUSE_MS);
      }
    }
  }

  const sending = Promise.all(Array.from({ length: connections }, sendOnAndOn));
  return {
    result,
    /** Ends when everything that was sent has been accepted. */
    async stop(): Promise<Result> {
      stopping.abort();
      await sending;
      return result;
    },
  };
}

function payloadOf(source: string, nth: number): Payload {
  return {
    source_slug: source,
    external_id: `flat-${nth % LISTINGS}`,
    description: `Продам двокімнатну квартиру у Львові, ${40 + (nth % LISTINGS)} м², 3 поверх з 5.`,
    price: 50_000 + nth,
    currency: 'USD',
  };
}
