import { commonErrors, defineProblems, describeProblems, type ErrorDefinition } from '@oselya/kit';

const signIn = { href: '/auth/login', text: 'Sign in' };
const signInAgain = { href: '/auth/login', text: 'Sign in again' };

/** Every error that the assistant answers. Contract 2; docs/errors.md is made from this table. */
export const errors = {
  ...commonErrors,
  login_not_valid: {
    status: 400,
    title: 'This sign-in is not valid',
    advice:
      'It was finished before, took longer than ten minutes, or was begun in another browser. Sign in again.',
    retry: false,
    page: { button: signInAgain },
  },
  login_cancelled: {
    status: 400,
    title: 'You did not sign in',
    advice:
      'It was cancelled at the identity provider, or the provider does not let this account in here. Sign in again, or ask its operator.',
    retry: false,
    page: { button: signInAgain },
  },
  login_refused: {
    status: 400,
    title: 'The identity provider refused the sign-in',
    advice:
      'This account may not sign in now, or the provider did not accept the request. Sign in again, or ask its operator.',
    retry: false,
    page: { button: signInAgain },
  },
  token_exchange_failed: {
    status: 400,
    title: 'The sign-in could not be completed',
    advice:
      'The identity provider did not give tokens for this sign-in. Sign in again; if it stays, look in the service log.',
    retry: false,
    page: { button: signInAgain },
  },
  terminal_request_not_valid: {
    status: 400,
    title: 'This sign-in of a terminal is not valid',
    advice:
      'It was answered before, took longer than ten minutes, was begun in another browser, or its link is not whole. Begin again with `oselya chat`.',
    retry: false,
  },
  terminal_code_not_valid: {
    status: 400,
    title: 'This code signs nobody in',
    advice:
      'It was used before, is older than a minute, or belongs to another terminal. Begin again with `oselya chat`.',
    retry: false,
  },
  webhook_not_verified: {
    status: 400,
    title: 'This webhook is not verified',
    advice:
      'The signature is missing, out of date, or not made with IDP_WEBHOOK_SECRET. Look in the service log for which of these it is.',
    retry: false,
  },
  logout_token_not_valid: {
    status: 400,
    title: 'This logout token is not valid',
    advice:
      'It is missing, expired, not signed by the provider, or breaks a rule of OpenID Connect Back-Channel Logout. Look in the service log for which of these it is.',
    retry: false,
  },
  not_signed_in: {
    status: 401,
    title: 'Not signed in',
    advice: 'There is no valid session. Sign in at /auth/login.',
    retry: false,
    page: { advice: 'Sign in to see this.', button: signIn },
  },
  account_without_email: {
    status: 403,
    title: 'This account cannot be used here',
    advice:
      'The identity provider sends no usable email for it. Ask its operator to add one to the account, then sign in again.',
    retry: false,
    page: { button: signInAgain },
  },
  admin_only: {
    status: 403,
    title: 'For administrators only',
    advice: 'This needs the role `admin`. Ask an administrator.',
    retry: false,
  },
  permission_missing: {
    status: 403,
    title: 'Permission missing',
    advice: 'Your account lacks the permission for this. Ask an administrator.',
    retry: false,
  },
  cross_site_request: {
    status: 403,
    title: 'Request from another site',
    advice: 'Requests that change something are taken from pages of this service only.',
    retry: false,
  },
  session_not_yours: {
    status: 403,
    title: 'The session is not yours',
    advice: 'It belongs to somebody else, or to nobody yet. Ask an administrator.',
    retry: false,
  },
  backchannel_logout_off: {
    status: 404,
    title: 'Back-channel logout is off',
    advice: 'It needs the provider’s keys and issuer: set IDP_DISCOVERY=true.',
    retry: false,
  },
  session_not_found: {
    status: 404,
    title: 'No such session',
    advice: 'It was deleted, or never was. GET /sessions lists yours.',
    retry: false,
    page: { advice: 'It was deleted, or never was.' },
  },
  file_not_found: {
    status: 404,
    title: 'No such file',
    advice: 'The session has no file of that name. GET /sessions/{id}/files lists what it has.',
    retry: false,
    page: { advice: 'It was deleted, or never was.' },
  },
  fact_not_found: {
    status: 404,
    title: 'No such fact',
    advice: 'It was deleted, or never was. GET /memory/facts lists yours.',
    retry: false,
  },
  memory_full: {
    status: 409,
    title: 'The memory is full',
    advice: 'Delete a fact that is not needed any more, then send this one again.',
    retry: false,
  },
  profile_not_found: {
    status: 404,
    title: 'No such profile',
    advice: 'GET /profiles lists those that can be used.',
    retry: false,
    page: { advice: 'It was deleted, or never was.' },
  },
  too_many_sessions: {
    status: 409,
    title: 'You have too many sessions',
    advice: 'Delete one that is not needed any more, then try again.',
    retry: false,
  },
  saved_search_not_yours: {
    status: 403,
    title: 'The saved search is not yours',
    advice: 'It belongs to somebody else. GET /saved-searches lists yours.',
    retry: false,
  },
  saved_search_not_found: {
    status: 404,
    title: 'No such saved search',
    advice: 'It was deleted, or never was. GET /saved-searches lists yours.',
    retry: false,
  },
  too_many_saved_searches: {
    status: 409,
    title: 'You have too many saved searches',
    advice: 'Delete one that is not needed any more, then send this one again.',
    retry: false,
  },
  too_much_stored: {
    status: 409,
    title: 'Too much is stored',
    advice: 'Delete files that are not needed any more, then send this one again.',
    retry: false,
  },
  too_many_files: {
    status: 409,
    title: 'The session has too many files',
    advice: 'Delete one that is not needed any more, then send this one again.',
    retry: false,
  },
  sign_in_not_found: {
    status: 404,
    title: 'No such sign-in',
    advice: 'It ended already, or is not one of yours. List yours with GET /auth/sessions.',
    retry: false,
  },
  user_not_found: {
    status: 404,
    title: 'No such user',
    advice: 'Nobody with this id has signed in here. List the users with GET /admin/users.',
    retry: false,
  },
  upgrade_required: {
    status: 426,
    title: 'A WebSocket is needed here',
    advice: 'Connect with a WebSocket client: docs/protocol.md describes the messages.',
    retry: false,
  },
  too_many_connections: {
    status: 429,
    title: 'Too many connections',
    advice: 'Your address has as many open connections as it may have. Close some, then try again.',
    retry: true,
  },
  hand_over_not_valid: {
    status: 422,
    title: 'This link leads to no sign-in',
    advice:
      'It hands a sign-in over to the Android application, and needs its `sid`. Begin the sign-in in the application again.',
    retry: false,
    page: { advice: 'Go back to the application, and begin the sign-in there again.' },
  },
  turn_running: {
    status: 409,
    title: 'An answer is being written',
    advice: 'Wait for it, or cancel it with `message.cancel`, then send this one again.',
    retry: false,
  },
  no_turn_running: {
    status: 409,
    title: 'No answer is being written',
    advice: 'It is complete already: open the session anew to see it.',
    retry: false,
  },
  message_name_taken: {
    status: 409,
    title: 'Another message has this name',
    advice:
      'A message with this `client_message_id` and another text is in the session. Send this one under a name of its own.',
    retry: false,
  },
  nothing_to_retry: {
    status: 409,
    title: 'There is nothing to try again',
    advice: 'The last answer of the session is complete. Send a new message.',
    retry: false,
  },
  too_many_turns: {
    status: 409,
    title: 'Too many answers at once',
    advice: 'Wait for one of your other sessions to be answered, then send this one again.',
    retry: false,
  },
  export_running: {
    status: 409,
    title: 'An export of yours is on its way',
    advice: 'Wait until it has come, or end it, then try again.',
    retry: true,
  },
  nothing_to_undo: {
    status: 409,
    title: 'There is nothing to undo',
    advice: 'It was undone already, or the memory has changed since. GET /memory/facts shows it.',
    retry: false,
  },
  too_many_open: {
    status: 409,
    title: 'Too many sessions are open',
    advice: 'Close one with `session.close`, or open it on another connection.',
    retry: false,
  },
  model_failed: {
    status: 502,
    title: 'The model gave no answer',
    advice: 'Try again with `message.retry`; if it stays, the operator finds why in the log.',
    retry: false,
  },
  message_too_long: {
    status: 413,
    title: 'The message is too long for the model',
    advice:
      'There is no room for an answer beside it. Send it in parts, or attach it as a text file and ask about that.',
    retry: false,
  },
  answer_too_long: {
    status: 502,
    title: 'The answer was cut off',
    advice: 'It reached its length limit. Ask for less at once, or for the rest of it.',
    retry: false,
  },
  answer_too_slow: {
    status: 504,
    title: 'The answer took too long',
    advice: 'What there is of it is kept. Try again with `message.retry`, or ask for less at once.',
    retry: false,
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
    retry: false,
  },
  unknown_message_type: {
    status: 422,
    title: 'Unknown type of message',
    advice: 'Send a message of one of the types that docs/protocol.md lists.',
    retry: false,
  },
  sign_in_not_configured: {
    status: 503,
    title: 'Sign-in is not configured',
    advice: 'The operator has to set IDP_CLIENT_ID to the client id at the identity provider.',
    retry: false,
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
    title: 'The identity provider sends no email of yours',
    advice:
      'You stay signed in. Ask the operator of the provider to add a usable email to your account, then try again.',
    retry: true,
  },
} satisfies Record<string, ErrorDefinition>;

export type ErrorCode = keyof typeof errors;

/** Builds the assistant's errors. */
export const problem = defineProblems(errors);

/** Describes which of them a route can answer, by code or by status. */
export const problemAnswers = describeProblems(errors);
