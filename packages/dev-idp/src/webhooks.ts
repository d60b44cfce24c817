import { createHmac, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

/** Events from Specification 000, Events, that this provider sends. */
type WebhookEventName =
  | 'user.blocked'
  | 'user.unblocked'
  | 'client.roles_changed'
  | 'client.permissions_changed'
  | 'session.revoked'
  | 'auth.global_logout';

/** Receiver of events, and its shared secret. The secret is used as text: base64 after `whsec_` is not decoded. */
export type WebhookTarget = { url: string; secret: string };

/** Event and the state of its delivery. */
export type WebhookDelivery = {
  /** Value of `webhook-id`. All attempts have the same ID. */
  id: string;
  event: WebhookEventName;
  /** ID of the account. Undefined if the event concerns all accounts. */
  user_id?: string | undefined;
  /** Time of the change, in ISO 8601 format. */
  occurred_at: string;
  state: 'waiting' | 'delivered' | 'failed';
  attempts: number;
  /** Last response, or the reason why there was none. */
  detail: string;
};

export type Webhooks = ReturnType<typeof createWebhooks>;

const ATTEMPT_TIMEOUT_MS = 5000;
const RETRY_DELAYS_MS: readonly number[] = [500, 2000, 8000];
const MAX_RECENT_DELIVERIES = 20;
const RETRYABLE_STATUSES: ReadonlySet<number> = new Set([408, 425, 429]);

/**
 * Creates a sender that posts events as Standard Webhooks, one at a time, so that changes arrive in order. A restart
 * loses unsent events. Without a target, all events fail, which the control page shows.
 */
export function createWebhooks(
  target?: WebhookTarget,
  { retryDelaysMs = RETRY_DELAYS_MS, timeoutMs = ATTEMPT_TIMEOUT_MS } = {},
) {
  const stopController = new AbortController();
  const deliveries: WebhookDelivery[] = [];
  let queue = Promise.resolve();

  async function deliver(delivery: WebhookDelivery, { url, secret }: WebhookTarget) {
    const { id, event, user_id, occurred_at } = delivery;
    const body = JSON.stringify({ event, user_id, occurred_at });
    for (const delayMs of [0, ...retryDelaysMs]) {
      await sleep(delayMs, undefined, { signal: stopController.signal }).catch(() => undefined);
      if (stopController.signal.aborted) return fail(delivery, 'the provider was stopped');
      const timestamp = Math.floor(Date.now() / 1000);
      const headers = createSignedHeaders(secret, { id, timestamp, body });
      const signal = AbortSignal.any([stopController.signal, AbortSignal.timeout(timeoutMs)]);
      const { state, detail } = await sendOnce(url, { headers, body, signal });
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
        detail: 'no response yet',
      };
      deliveries.unshift(delivery);
      deliveries.length = Math.min(deliveries.length, MAX_RECENT_DELIVERIES);
      if (target) queue = queue.then(() => deliver(delivery, target));
      else fail(delivery, 'no webhook is set up');
      return delivery;
    },
    /** Returns the latest deliveries, most recent first. */
    listRecent: () => deliveries.map((delivery) => ({ ...delivery })),
    /** Waits until all queued events have been delivered or have failed. */
    waitUntilSettled: () => queue,
    /** Aborts the delivery in progress, fails the queued deliveries, and waits until all are settled. */
    close(): Promise<void> {
      stopController.abort();
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
async function sendOnce(
  url: string,
  {
    headers,
    ...requestOptions
  }: { headers: Record<string, string>; body: string; signal: AbortSignal },
): Promise<Pick<WebhookDelivery, 'state' | 'detail'>> {
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', connection: 'close', ...headers },
      redirect: 'manual',
      ...requestOptions,
    });
    await response.body?.cancel();
    const { status, ok } = response;
    const isRetryable = status >= 500 || RETRYABLE_STATUSES.has(status);
    const state = ok ? 'delivered' : isRetryable ? 'waiting' : 'failed';
    return { state, detail: `responded with status ${status}` };
  } catch (error) {
    return { state: 'waiting', detail: describeFetchError(error) };
  }
}

function describeFetchError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === 'TimeoutError') return 'no response in time';
  const { code } = Object(error.cause) as { code?: string };
  return `cannot be reached (${code ?? error.message})`;
}

/** Creates the headers of a signed message (Standard Webhooks, Webhook headers). `timestamp` is in Unix seconds. */
export function createSignedHeaders(
  secret: string | Buffer,
  { id, timestamp, body }: { id: string; timestamp: number; body: string },
): Record<string, string> {
  const content = `${id}.${timestamp}.${body}`;
  const signature = createHmac('sha256', secret).update(content).digest('base64');
  return {
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': `v1,${signature}`,
  };
}
