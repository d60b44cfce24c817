import { createHmac, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

/** The events of Specification 000, Events, that this provider sends. */
export type WebhookEventName =
  | 'user.blocked'
  | 'user.unblocked'
  | 'client.roles_changed'
  | 'client.permissions_changed'
  | 'session.revoked'
  | 'auth.global_logout';

/** The receiver of events, and the secret shared with it. */
export type WebhookTarget = {
  url: string;
  /** The key's text, or `whsec_` and the key in base64. */
  secret: string;
};

/** One event and the state of its delivery. */
export type WebhookDelivery = {
  /** The `webhook-id`, the same in every attempt. */
  id: string;
  event: WebhookEventName;
  /** Undefined where the event is about all accounts. */
  user_id?: string | undefined;
  /** The time of the change, in ISO 8601. */
  occurred_at: string;
  state: 'waiting' | 'delivered' | 'failed';
  attempts: number;
  /** The last answer, or the reason for having none, in words. */
  detail: string;
};

/** The provider's outgoing webhooks. */
export type Webhooks = ReturnType<typeof createWebhooks>;

const ATTEMPT_TIMEOUT_MS = 5000;
/** There is one attempt more than there are delays. */
const RETRY_DELAYS_MS: readonly number[] = [500, 2000, 8000];
const MAX_RECENT = 20;
const RETRYABLE: ReadonlySet<number> = new Set([408, 425, 429]);

/**
 * Sends events as Standard Webhooks, one after the other, so that changes arrive in their order. Nothing is kept across
 * restarts. Without a target every event fails, which the control page shows.
 * @throws TypeError when the target's address or secret cannot be used.
 */
export function createWebhooks(
  target?: WebhookTarget,
  { retryDelaysMs = RETRY_DELAYS_MS, timeoutMs = ATTEMPT_TIMEOUT_MS } = {},
) {
  const key = target && keyFor(target);
  const stopping = new AbortController();
  const recent: WebhookDelivery[] = [];
  let queue = Promise.resolve();

  async function deliver(delivery: WebhookDelivery, url: string, signingKey: Buffer) {
    const { id, event, user_id, occurred_at } = delivery;
    const body = JSON.stringify({ event, user_id, occurred_at });
    for (const delayMs of [0, ...retryDelaysMs]) {
      await sleep(delayMs, undefined, { signal: stopping.signal }).catch(() => undefined);
      if (stopping.signal.aborted) return fail(delivery, 'the provider was stopped');
      const timestamp = Math.floor(Date.now() / 1000);
      const headers = signedHeaders(signingKey, { id, timestamp, body });
      const signal = AbortSignal.any([stopping.signal, AbortSignal.timeout(timeoutMs)]);
      const { state, detail } = await attempt(url, { headers, body, signal });
      Object.assign(delivery, { attempts: delivery.attempts + 1, state, detail });
      if (state !== 'waiting') return;
    }
    delivery.state = 'failed';
  }

  return {
    url: target?.url,
    /** Queues an event; the returned delivery changes as it proceeds. */
    send(event: WebhookEventName, userId?: string): Readonly<WebhookDelivery> {
      const delivery: WebhookDelivery = {
        id: `msg_${randomUUID()}`,
        event,
        user_id: userId,
        occurred_at: new Date().toISOString(),
        state: 'waiting',
        attempts: 0,
        detail: 'no answer yet',
      };
      recent.unshift(delivery);
      recent.length = Math.min(recent.length, MAX_RECENT);
      if (target && key) queue = queue.then(() => deliver(delivery, target.url, key));
      else fail(delivery, 'no webhook is set up');
      return delivery;
    },
    /** Returns the latest deliveries, the last one first. */
    recent: () => recent.map((delivery) => ({ ...delivery })),
    /** Resolves when every event so far has been delivered or has failed. */
    settled: () => queue,
    /** Aborts deliveries in progress and fails those that wait. */
    close(): Promise<void> {
      stopping.abort();
      return queue;
    },
  };
}

function fail(delivery: WebhookDelivery, detail: string): void {
  Object.assign(delivery, { state: 'failed', detail });
}

/**
 * Posts a message once, on a new connection, because receivers in development restart often.
 * @returns The state `waiting` if another attempt may succeed.
 */
async function attempt(
  url: string,
  { headers, ...init }: { headers: Record<string, string>; body: string; signal: AbortSignal },
): Promise<Pick<WebhookDelivery, 'state' | 'detail'>> {
  try {
    const answer = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', connection: 'close', ...headers },
      redirect: 'manual',
      ...init,
    });
    await answer.body?.cancel();
    const { status, ok } = answer;
    const isRetryable = status >= 500 || RETRYABLE.has(status);
    const state = ok ? 'delivered' : isRetryable ? 'waiting' : 'failed';
    return { state, detail: `answered ${status}` };
  } catch (error) {
    return { state: 'waiting', detail: reasonOf(error) };
  }
}

/** Returns the reason of a failed fetch, which is in its cause. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === 'TimeoutError') return 'no answer in time';
  const { code } = Object(error.cause) as { code?: string };
  return `cannot be reached (${code ?? error.message})`;
}

function keyFor({ url, secret }: WebhookTarget): Buffer {
  const protocol = URL.parse(url)?.protocol;
  if (protocol !== 'http:' && protocol !== 'https:') {
    throw new TypeError('webhook.url: give the http or https address of the receiver');
  }
  return webhookKey(secret);
}

const BASE64_PREFIX = 'whsec_';

/**
 * Returns the key of a shared secret: its UTF-8 bytes, or the base64 of either alphabet after `whsec_` (Standard
 * Webhooks, Signature scheme).
 * @throws TypeError when the secret is empty, or the rest after the prefix is not base64.
 */
export function webhookKey(secret: string): Buffer {
  if (secret === '') {
    throw new TypeError('webhook.secret: give the secret shared with the receiver');
  }
  if (!secret.startsWith(BASE64_PREFIX)) return Buffer.from(secret, 'utf8');
  const encoded = secret.slice(BASE64_PREFIX.length);
  if (!/^(?:[\w+/-]{4})*(?:[\w+/-]{2,3}={0,2})?$/.test(encoded) || encoded === '') {
    throw new TypeError(`webhook.secret: after ${BASE64_PREFIX} give the key in base64`);
  }
  return Buffer.from(encoded, 'base64');
}

/** Returns the three headers of a signed message (Standard Webhooks, Webhook headers); time in Unix seconds. */
export function signedHeaders(
  key: Buffer,
  { id, timestamp, body }: { id: string; timestamp: number; body: string },
): Record<string, string> {
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
  return {
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': `v1,${signature}`,
  };
}
