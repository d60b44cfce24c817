/** What the provider is asked for. */
export type ProviderOperation = 'discovery' | 'keys' | 'token' | 'refresh' | 'userinfo' | 'revoke';

/** Makes a request to the provider and measures it; its answer or error is the request's. */
export type MeasureRequest = <Answer>(
  operation: ProviderOperation,
  request: () => Promise<Answer>,
) => Promise<Answer>;

/** Makes it, where nobody measures. */
export const unmeasured: MeasureRequest = (_operation, request) => request();
