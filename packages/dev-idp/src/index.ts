export { type DevAccess, type DevAccount, sampleAccounts } from './accounts.ts';
export { createDevIdp, type DevIdp, type DevIdpOptions } from './dev-idp.ts';
export type { WebhookDelivery, WebhookEventName, WebhookTarget } from './webhooks/webhooks.ts';
