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

/** Receiver of events, and its shared secret. */
export type WebhookTarget = {
  url: string;
  /** Key as text, or `whsec_` and the key in base64. */
  secret: string;
};

/** Event and the state of its delivery. */
export type WebhookDelivery = {
  /** Value of `webhook-id`. All attempts have the same ID. */
  id: string;
  event: WebhookEventName;
  /** ID of the account. Undefined if the event concerns all accounts. */
  user_id?: string | undefined;
  /** Time of the change in ISO 8601. */
  occurred_at: string;
  state: 'waiting' | 'delivered' | 'failed';
  attempts: number;
  /** Description of the last response, or of the reason for a missing response. */
  detail: string;
};

/** Outgoing webhooks of the provider. */
export type Webhooks = ReturnType<typeof createWebhooks>;

const ATTEMPT_TIMEOUT_MS = 5000;
/** Delays between attempts. The number of attempts is one higher. */
const RETRY_DELAYS_MS: readonly number[] = [500, 2000, 8000];
const MAX_RECENT = 20;
const RETRYABLE: ReadonlySet<number> = new Set([408, 425, 429]);

/**
 * Creates a sender of events as Standard Webhooks. It sends one event at a time, so that changes arrive in order.
 * Events are lost at a restart. Without a target, all events fail, which the control page shows.
 * @throws TypeError if the URL or the secret of the target is invalid.
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
      const headers = createSignedHeaders(signingKey, { id, timestamp, body });
      const signal = AbortSignal.any([stopping.signal, AbortSignal.timeout(timeoutMs)]);
      const { state, detail } = await attempt(url, { headers, body, signal });
      Object.assign(delivery, { attempts: delivery.attempts + 1, state, detail });
      if (state !== 'waiting') return;
    }
    delivery.state = 'failed';
  }

  return {
    url: target?.url,
    /** Enqueues an event. The returned delivery is updated as it proceeds. */
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
    /** Returns the latest deliveries, most recent first. */
    recent: () => recent.map((delivery) => ({ ...delivery })),
    /** Waits until all queued events have been delivered or have failed. */
    settled: () => queue,
    /** Aborts the delivery in progress, and fails the queued deliveries. */
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
 * Posts a message once. Uses a new connection, because receivers restart often in development.
 * @returns The new state. `waiting` means that another attempt may succeed.
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

/** Describes why a fetch failed. The reason is in the cause of the error. */
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
  return parseWebhookSecret(secret);
}

const BASE64_PREFIX = 'whsec_';

/**
 * Parses a shared secret: `whsec_` and a key in base64 or base64url, or else the key as text (Standard Webhooks,
 * Signature scheme).
 * @throws TypeError if the secret is empty, or if the text after the prefix is not base64.
 */
export function parseWebhookSecret(secret: string): Buffer {
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

/** Creates the headers of a signed message (Standard Webhooks, Webhook headers). `timestamp` is in Unix seconds. */
export function createSignedHeaders(
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
