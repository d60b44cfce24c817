import { ProblemError } from '@oselya/kit';
import { Counter, Histogram, type Registry } from 'prom-client';
import { isRejection, type MeasureRequest, ProviderError } from './provider/transport.ts';

const LATENCY_BUCKETS_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** Result of a token refresh. `waited` means that another process held the lease. */
export type RefreshOutcome = 'refreshed' | 'refused' | 'unavailable' | 'waited';

/** Reason why an auth session ended before it expired. `refused` means that the provider rejected its tokens. */
export type EndReason = 'signed_out' | 'ended' | 'replaced' | 'admin' | 'webhook' | 'refused';

export type IdentityMetrics = ReturnType<typeof createIdentityMetrics>;

/** Creates and registers the identity metrics. */
export function createIdentityMetrics(registry: Registry) {
  const registers = [registry];
  const createCounter = (name: string, help: string, label: string) =>
    new Counter({ name, help, labelNames: [label], registers });
  const signIns = createCounter(
    'assistant_sign_ins_total',
    'Sign-ins that returned from the provider, by outcome: "ok" or the error code.',
    'outcome',
  );
  const refreshes = createCounter(
    'assistant_token_refreshes_total',
    'Expired access tokens, by refresh outcome; "waited" if another process refreshed.',
    'outcome',
  );
  const endedSessions = createCounter(
    'assistant_auth_sessions_ended_total',
    'Auth sessions that ended before their lifetime did, by the reason.',
    'reason',
  );
  const providerRequests = new Histogram({
    name: 'assistant_provider_request_duration_seconds',
    help: 'Time of one request to the identity provider, with its whole answer.',
    labelNames: ['operation', 'outcome'],
    buckets: LATENCY_BUCKETS_SECONDS,
    registers,
  });
  const measureRequest: MeasureRequest = async (operation, request) => {
    const stopTimer = providerRequests.startTimer({ operation });
    try {
      const result = await request();
      stopTimer({ outcome: 'ok' });
      return result;
    } catch (error) {
      const failureOutcome = error instanceof ProviderError ? 'unavailable' : 'error';
      stopTimer({ outcome: isRejection(error) ? 'refused' : failureOutcome });
      throw error;
    }
  };
  return {
    measureRequest,
    countRefresh: (outcome: RefreshOutcome) => refreshes.inc({ outcome }),
    countEnded: (reason: EndReason, sessions = 1) => endedSessions.inc({ reason }, sessions),
    async countSignIn<Result>(signIn: () => Promise<Result>): Promise<Result> {
      try {
        const result = await signIn();
        signIns.inc({ outcome: 'ok' });
        return result;
      } catch (error) {
        signIns.inc({ outcome: error instanceof ProblemError ? error.code : 'internal_error' });
        throw error;
      }
    },
  };
}
