import {
  commonErrors,
  createProblemFactory,
  createProblemResponses,
  type ErrorDefinition,
} from '@oselya/kit';

const signIn = { href: '/auth/login', text: 'Sign in' };
const signInAgain = { href: '/auth/login', text: 'Sign in again' };

/** All errors of the assistant. Contract 2; docs/errors.md is generated from this table. */
export const errors = {
  ...commonErrors,
  login_not_valid: {
    status: 400,
    title: 'This sign-in is not valid',
    advice:
      'It is already finished, took longer than ten minutes, or began in another browser. Sign in again.',
    page: { button: signInAgain },
  },
  login_cancelled: {
    status: 400,
    title: 'You did not sign in',
    advice:
      'The sign-in was cancelled at the identity provider, or the provider denies this account access. Sign in again, or ask its operator.',
    page: { button: signInAgain },
  },
  login_refused: {
    status: 400,
    title: 'The identity provider rejected the sign-in',
    advice:
      'This account cannot sign in now, or the provider did not accept the request. Sign in again, or ask its operator.',
    page: { button: signInAgain },
  },
  token_exchange_failed: {
    status: 400,
    title: 'The sign-in could not be completed',
    advice:
      'The identity provider issued no tokens for this sign-in. Sign in again; if it fails again, read the service log.',
    page: { button: signInAgain },
  },
  terminal_request_not_valid: {
    status: 400,
    title: 'This sign-in of a terminal is not valid',
    advice:
      'It is already answered, took longer than ten minutes, began in another browser, or its link is incomplete. Begin again with `oselya chat`.',
  },
  terminal_code_not_valid: {
    status: 400,
    title: 'This code is invalid or has expired',
    advice:
      'It was used already, is older than a minute, or belongs to another terminal. Begin again with `oselya chat`.',
  },
  webhook_not_verified: {
    status: 400,
    title: 'This webhook is not verified',
    advice:
      'The signature is missing, out of date, or not made with IDP_WEBHOOK_SECRET. The service log has the reason.',
  },
  logout_token_not_valid: {
    status: 400,
    title: 'This logout token is not valid',
    advice:
      'It is missing, expired, not signed by the provider, or violates OpenID Connect Back-Channel Logout. The service log has the reason.',
  },
  not_signed_in: {
    status: 401,
    title: 'Not signed in',
    advice: 'There is no valid session. Sign in at /auth/login.',
    page: { advice: 'Sign in to see this.', button: signIn },
  },
  account_without_email: {
    status: 403,
    title: 'This account cannot be used here',
    advice:
      'The identity provider sends no usable email for it. Ask the operator of the provider to add one, then sign in again.',
    page: { button: signInAgain },
  },
  admin_only: {
    status: 403,
    title: 'For administrators only',
    advice: 'This needs the role `admin`. Ask an administrator.',
  },
  permission_missing: {
    status: 403,
    title: 'Permission missing',
    advice: 'Your account lacks the permission for this. Ask an administrator.',
  },
  cross_site_request: {
    status: 403,
    title: 'Request from another site',
    advice:
      'Only pages of this service can send requests that change something. Send it from there.',
  },
  session_not_yours: {
    status: 403,
    title: 'The session is not yours',
    advice: 'It belongs to another user, or has no owner. Ask an administrator.',
  },
  backchannel_logout_off: {
    status: 404,
    title: 'Back-channel logout is off',
    advice: 'It needs the provider’s keys and issuer: set IDP_DISCOVERY=true.',
  },
  session_not_found: {
    status: 404,
    title: 'No such session',
    advice: 'It does not exist or has been deleted. GET /sessions lists yours.',
    page: { advice: 'It does not exist or has been deleted.' },
  },
  file_not_found: {
    status: 404,
    title: 'No such file',
    advice: 'The session has no file of that name. GET /sessions/{id}/files lists what it has.',
    page: { advice: 'It does not exist or has been deleted.' },
  },
  fact_not_found: {
    status: 404,
    title: 'No such fact',
    advice: 'It does not exist or has been deleted. GET /memory/facts lists yours.',
  },
  memory_full: {
    status: 409,
    title: 'The memory is full',
    advice: 'Delete a fact that is no longer needed, then send this one again.',
  },
  profile_not_found: {
    status: 404,
    title: 'No such profile',
    advice: 'GET /profiles lists the available ones.',
    page: { advice: 'It does not exist or has been deleted.' },
  },
  too_many_sessions: {
    status: 409,
    title: 'You have too many sessions',
    advice: 'Delete one that is no longer needed, then try again.',
  },
  saved_search_not_yours: {
    status: 403,
    title: 'The saved search is not yours',
    advice: 'It belongs to another user. GET /saved-searches lists yours.',
  },
  saved_search_not_found: {
    status: 404,
    title: 'No such saved search',
    advice: 'It does not exist or has been deleted. GET /saved-searches lists yours.',
  },
  too_many_saved_searches: {
    status: 409,
    title: 'You have too many saved searches',
    advice: 'Delete one that is no longer needed, then send this one again.',
  },
  too_much_stored: {
    status: 409,
    title: 'Too much is stored',
    advice: 'Delete files that are no longer needed, then send this one again.',
  },
  too_many_files: {
    status: 409,
    title: 'The session has too many files',
    advice: 'Delete one that is no longer needed, then send this one again.',
  },
  sign_in_not_found: {
    status: 404,
    title: 'No such sign-in',
    advice: 'It has ended, or is not one of yours. GET /auth/sessions lists yours.',
  },
  user_not_found: {
    status: 404,
    title: 'No such user',
    advice: 'No user with this id has signed in here. GET /admin/users lists the users.',
  },
  upgrade_required: {
    status: 426,
    title: 'A WebSocket is required',
    advice: 'Connect with a WebSocket client: docs/protocol.md describes the messages.',
  },
  too_many_connections: {
    status: 429,
    title: 'Too many connections',
    advice: 'Your address has the maximum number of open connections. Close some, then try again.',
    retry: true,
  },
  hand_over_not_valid: {
    status: 422,
    title: 'This link is not valid',
    advice:
      'It hands a sign-in over to the Android application, and its `sid` is missing or malformed. Begin the sign-in in the application again.',
    page: { advice: 'Go back to the application and sign in again.' },
  },
  turn_running: {
    status: 409,
    title: 'An answer is being written',
    advice: 'Wait for it, or cancel it with `message.cancel`, then send this one again.',
  },
  no_turn_running: {
    status: 409,
    title: 'No answer is being written',
    advice: 'It is complete: open the session again to see it.',
  },
  message_name_taken: {
    status: 409,
    title: 'Another message has this id',
    advice:
      'The session has a message with this `client_message_id` and another text. Send this one under another id.',
  },
  nothing_to_retry: {
    status: 409,
    title: 'There is nothing to retry',
    advice: 'The last answer of the session is complete. Send a new message.',
  },
  too_many_turns: {
    status: 409,
    title: 'Too many answers at once',
    advice: 'Wait for one of your other sessions to be answered, then send this one again.',
  },
  export_running: {
    status: 409,
    title: 'Your export is in progress',
    advice: 'Wait until it is complete, or cancel it, then try again.',
    retry: true,
  },
  nothing_to_undo: {
    status: 409,
    title: 'There is nothing to undo',
    advice: 'It is already undone, or the memory has changed since. GET /memory/facts shows it.',
  },
  too_many_open: {
    status: 409,
    title: 'Too many sessions are open',
    advice: 'Close one with `session.close`, or open it on another connection.',
  },
  model_failed: {
    status: 502,
    title: 'The model failed',
    advice: 'Try again with `message.retry`; if it fails again, ask the operator to read the log.',
  },
  message_too_long: {
    status: 413,
    title: 'The message is too long for the model',
    advice:
      'It leaves no room for an answer. Send it in parts, or attach it as a text file and ask about that.',
  },
  answer_too_long: {
    status: 502,
    title: 'The answer was truncated',
    advice: 'It reached its length limit. Ask for less at once, or for the rest.',
  },
  answer_too_slow: {
    status: 504,
    title: 'The answer took too long',
    advice:
      'The part that was written is kept. Try again with `message.retry`, or ask for less at once.',
  },
  model_unavailable: {
    status: 503,
    title: 'The model does not answer',
    advice: 'Your message is kept. Try again with `message.retry` in a minute.',
    retry: true,
  },
  malformed_message: {
    status: 400,
    title: 'Malformed message',
    advice: 'Send a JSON object with a `type`, in a text frame.',
  },
  unknown_message_type: {
    status: 422,
    title: 'Unknown type of message',
    advice: 'Send a type that docs/protocol.md lists.',
  },
  sign_in_not_configured: {
    status: 503,
    title: 'Sign-in is not configured',
    advice: 'The operator must set IDP_CLIENT_ID to the client id at the identity provider.',
  },
  provider_unavailable: {
    status: 503,
    title: 'The identity provider does not answer',
    advice: 'You stay signed in. Wait for the seconds in `Retry-After`, then try again.',
    retry: true,
    page: { advice: 'You stay signed in. Try again in a few seconds.' },
  },
  user_without_email: {
    status: 503,
    title: 'The identity provider does not send your email',
    advice:
      'You stay signed in. Ask the operator of the provider to add a usable email to your account, then try again.',
    retry: true,
  },
} satisfies Record<string, ErrorDefinition>;

export type ErrorCode = keyof typeof errors;

/** Creates an error of the table. */
export const problem = createProblemFactory(errors);

/** Describes the errors of a route for OpenAPI, by code or status. */
export const problemResponses = createProblemResponses(errors);
