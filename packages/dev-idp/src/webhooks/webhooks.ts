import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { attempt } from './attempt.ts';
import { signedHeaders, webhookKey } from './signature.ts';

/** The events of Specification 000, Events, that this provider has an occasion to send. */
export type WebhookEventName =
  | 'user.blocked'
  | 'user.unblocked'
  | 'client.roles_changed'
  | 'client.permissions_changed'
  | 'session.revoked'
  | 'auth.global_logout';

/** Where events are sent, and the secret that both sides know. */
export type WebhookTarget = {
  url: string;
  /** The key's text, or `whsec_` and the key in base64. */
  secret: string;
};

/** One event on its way to the receiver, or past it. */
export type WebhookDelivery = {
  /** The `webhook-id`, the same in every attempt. */
  id: string;
  event: WebhookEventName;
  /** Absent where the event is about everybody. */
  user_id?: string;
  /** When the change was made, in ISO 8601. */
  occurred_at: string;
  state: 'waiting' | 'delivered' | 'failed';
  attempts: number;
  /** The last answer, or why there was none, in words for a person. */
  detail: string;
};

/** The provider's outgoing webhooks. */
export type Webhooks = {
  /** Where they go; nowhere without a target. */
  readonly url: string | undefined;
  /** Queues an event; what is returned follows its delivery. */
  send: (event: WebhookEventName, userId?: string) => Readonly<WebhookDelivery>;
  /** The latest deliveries as they are now, the last one first. */
  recent: () => WebhookDelivery[];
  /** Resolves when every event sent so far has been delivered or given up. */
  settled: () => Promise<void>;
  /** Gives up whatever waits or is under way. */
  close: () => Promise<void>;
};

/** How long to wait, in milliseconds; there is one attempt more than there are delays. */
export type WebhookTiming = {
  attemptTimeoutMs: number;
  retryDelaysMs: readonly number[];
};

const defaultTiming: WebhookTiming = { attemptTimeoutMs: 5000, retryDelaysMs: [500, 2000, 8000] };
const keptDeliveries = 20;
/** Far more than somebody clicks together while a receiver is down. */
const maxWaiting = 1000;

/**
 * Sends events as Standard Webhooks, one after the other: so what happens to an account, or to
 * everybody, arrives in the order in which it happened. Nothing is kept across restarts. Without a
 * target every event fails, which the control page then shows.
 *
 * @param now the current time in milliseconds
 * @throws TypeError when the target's address or secret cannot be used
 */
export function createWebhooks(
  target?: WebhookTarget,
  timing: WebhookTiming = defaultTiming,
  now: () => number = Date.now,
): Webhooks {
  const key = target && keyFor(target);
  const stopping = new AbortController();
  const recent: WebhookDelivery[] = [];
  let waiting = 0;
  let queue = Promise.resolve();

  function send(event: WebhookEventName, userId?: string): WebhookDelivery {
    const delivery: WebhookDelivery = {
      id: `msg_${randomUUID()}`,
      event,
      ...(userId !== undefined && { user_id: userId }),
      occurred_at: new Date(now()).toISOString(),
      state: 'waiting',
      attempts: 0,
      detail: 'no answer yet',
    };
    recent.unshift(delivery);
    recent.length = Math.min(recent.length, keptDeliveries);
    if (!target || !key) fail(delivery, 'no webhook is set up');
    else if (waiting >= maxWaiting) fail(delivery, `${maxWaiting} others are waiting already`);
    else {
      waiting += 1;
      queue = deliverAfter(queue, delivery, target.url, key);
    }
    return delivery;
  }

  async function deliverAfter(
    earlier: Promise<void>,
    delivery: WebhookDelivery,
    url: string,
    signingKey: Buffer,
  ) {
    await earlier;
    await deliver(delivery, url, signingKey);
    waiting -= 1;
  }

  async function deliver(delivery: WebhookDelivery, url: string, signingKey: Buffer) {
    const { id, event, user_id, occurred_at } = delivery;
    const body = JSON.stringify({ event, user_id, occurred_at });
    const { signal } = stopping;
    for (const delayMs of [0, ...timing.retryDelaysMs]) {
      await sleep(delayMs, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return fail(delivery, 'the provider was stopped');
      const timestamp = Math.floor(now() / 1000);
      const headers = signedHeaders(signingKey, { id, timestamp, body });
      const timeoutMs = timing.attemptTimeoutMs;
      const { outcome, detail } = await attempt({ url, headers, body, timeoutMs, signal });
      delivery.attempts += 1;
      delivery.detail = detail;
      if (outcome === 'retry') continue;
      delivery.state = outcome;
      return;
    }
    delivery.state = 'failed';
  }

  return {
    url: target?.url,
    send,
    recent: () => recent.map((delivery) => ({ ...delivery })),
    settled: () => queue,
    close() {
      stopping.abort();
      return queue;
    },
  };
}

function fail(delivery: WebhookDelivery, detail: string): void {
  delivery.state = 'failed';
  delivery.detail = detail;
}

function keyFor({ url, secret }: WebhookTarget): Buffer {
  const protocol = URL.parse(url)?.protocol;
  if (protocol !== 'http:' && protocol !== 'https:') {
    throw new TypeError('webhook.url: give the http or https address of the receiver');
  }
  return webhookKey(secret);
}
