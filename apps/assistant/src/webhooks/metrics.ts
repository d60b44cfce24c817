import { Counter, type Registry } from 'prom-client';
import { BACKCHANNEL_LOGOUT, rules } from './events.ts';
import type { Receipt } from './service.ts';

/** The label of an event: a label for whatever the provider sends would never stop growing. */
export function eventLabel(receipt: Receipt): string {
  const name = receipt.outcome === 'refused' ? null : receipt.event;
  return name !== null && (rules.has(name) || name === BACKCHANNEL_LOGOUT) ? name : 'other';
}

/** Counts what became of a webhook. */
export type CountWebhook = (receipt: Receipt) => void;

/** Counts webhooks by event and outcome in `assistant_webhooks_total`. */
export function createWebhookMetrics(registry: Registry): CountWebhook {
  const counter = new Counter({
    name: 'assistant_webhooks_total',
    help: 'Webhooks and logout tokens of the identity provider, by event and by what became of them.',
    labelNames: ['event', 'outcome'],
    registers: [registry],
  });
  return (receipt) => counter.inc({ event: eventLabel(receipt), outcome: receipt.outcome });
}
