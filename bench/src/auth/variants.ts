import type { Variant } from '../load/variant.ts';
import { assistantVariant } from './assistant.ts';
import { betterAuth, constant, fastifySession } from './peers.ts';

/** Response times of the provider, in milliseconds. */
const PROVIDER_MS = [0, 10, 50];

const assistants = (userMaxAgeSeconds: number) =>
  PROVIDER_MS.map((providerMs) => assistantVariant({ providerMs, userMaxAgeSeconds }));

/** Assistants that fetch the user's data for each request, which is the default. */
export const uncachedAssistants = assistants(0);

/** Assistants that reuse user data for up to 30 s. */
export const cachedAssistants = assistants(30);

/** better-auth with its default session settings. */
export const betterAuthPlain = betterAuth('better-auth', {
  hasJoins: false,
  hasCookieCache: false,
});

/** Fastest measured configuration of better-auth in which a sign-out takes effect immediately. */
export const betterAuthJoins = betterAuth('better-auth, joins', {
  hasJoins: true,
  hasCookieCache: false,
});

/** All variants. Compared variants are adjacent, so that they run under similar conditions. */
export const variants: readonly Variant[] = [
  ...uncachedAssistants,
  ...cachedAssistants,
  constant,
  betterAuthPlain,
  betterAuthJoins,
  betterAuth('better-auth, cookie cache', { hasJoins: false, hasCookieCache: true }),
  fastifySession,
];

/** Variants to put under load in a smoke run. The list is short, because each variant takes seconds to start. */
export const smokeVariants: readonly Variant[] = [
  ...cachedAssistants.slice(0, 1),
  constant,
  betterAuthPlain,
  fastifySession,
];
