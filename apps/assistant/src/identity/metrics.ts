import { ProblemError } from '@oselya/kit';
import { Counter, Histogram, type Registry } from 'prom-client';
import type { MeasureRequest } from './provider/measure-request.ts';
import { ProviderError, toProviderError } from './provider/provider-error.ts';

/** Calls to a provider: next door, across the world, or until IDP_TIMEOUT_MS. */
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** How a refresh of tokens ended for those on one process who needed it. */
export type RefreshOutcome = 'refreshed' | 'refused' | 'unavailable' | 'waited';

/** Why auth sessions ended before their lifetime did. */
export type EndReason =
  /** The user signed out, ended another sign-in of their own, or signed in again. */
  | 'signed_out'
  | 'ended'
  | 'replaced'
  /** An admin or the provider's webhook ended them, or the provider refuses their tokens. */
  | 'admin'
  | 'webhook'
  | 'refused';

/** Figures about signing in and out and about the provider, in base units. */
export type IdentityMetrics = ReturnType<typeof createIdentityMetrics>;

/** Makes the metrics of identity and registers them. */
export function createIdentityMetrics(registry: Registry) {
  const registers = [registry];
  const signIns = new Counter({
    name: 'assistant_sign_ins_total',
    help: 'Sign-ins that came back from the provider, by how they ended: "ok" or the error code.',
    labelNames: ['outcome'],
    registers,
  });
  const refreshes = new Counter({
    name: 'assistant_token_refreshes_total',
    help: 'Expired access tokens, by what came of it; "waited" where another process refreshed.',
    labelNames: ['outcome'],
    registers,
  });
  const providerRequests = new Histogram({
    name: 'assistant_provider_request_duration_seconds',
    help: 'Time of one request to the identity provider, with its whole answer.',
    labelNames: ['operation', 'outcome'],
    buckets: SECONDS,
    registers,
  });
  const ended = new Counter({
    name: 'assistant_auth_sessions_ended_total',
    help: 'Auth sessions that ended before their lifetime did, by the reason.',
    labelNames: ['reason'],
    registers,
  });

  return {
    /** Counts how a sign-in ends. */
    async countSignIn<Result>(work: () => Promise<Result>): Promise<Result> {
      try {
        const result = await work();
        signIns.inc({ outcome: 'ok' });
        return result;
      } catch (error) {
        signIns.inc({ outcome: error instanceof ProblemError ? error.code : 'internal_error' });
        throw error;
      }
    },
    countRefresh(outcome: RefreshOutcome): void {
      refreshes.inc({ outcome });
    },
    countEnded(reason: EndReason, sessions = 1): void {
      ended.inc({ reason }, sessions);
    },
    /** Measures a request to the provider, under what it is for and how it ends. */
    measureRequest: (async (operation, request) => {
      const end = providerRequests.startTimer({ operation });
      try {
        const answer = await request();
        end({ outcome: 'ok' });
        return answer;
      } catch (error) {
        const failure = toProviderError(error);
        end({ outcome: failure instanceof ProviderError ? failure.kind : 'error' });
        throw error;
      }
    }) satisfies MeasureRequest,
  };
}
