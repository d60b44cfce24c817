import {
  commonErrors,
  createProblemFactory,
  createProblemResponses,
  type ErrorDefinition,
} from '@oselya/kit';

const signInButton = { href: '/auth/login', text: 'Sign in' };
const signInAgainButton = { href: '/auth/login', text: 'Sign in again' };

type ErrorTexts = [
  title: string,
  advice: string,
  options?: Pick<ErrorDefinition, 'page' | 'canRetry'>,
];

function defineErrors<Code extends string>(status: number, errorTexts: Record<Code, ErrorTexts>) {
  const definitions = Object.entries<ErrorTexts>(errorTexts).map(
    ([code, [title, advice, options]]) => [code, { status, title, advice, ...options }],
  );
  // Object.fromEntries loses the type of the keys, which the assertion restores.
  return Object.fromEntries(definitions) as Record<Code, ErrorDefinition>;
}

/** Errors of the assistant. Contract 2. `docs/errors.md` is generated from this table. */
export const errors = {
  ...commonErrors,
  ...defineErrors(400, {
    login_not_valid: [
      'This sign-in is not valid',
      'It is already finished, took longer than ten minutes, or began in another browser. Sign in again.',
      { page: { button: signInAgainButton } },
    ],
    login_cancelled: [
      'You did not sign in',
      'The sign-in was cancelled at the identity provider, or the provider denies this account access. Sign in again, or ask its operator.',
      { page: { button: signInAgainButton } },
    ],
    login_refused: [
      'The identity provider rejected the sign-in',
      'This account cannot sign in now, or the provider did not accept the request. Sign in again, or ask its operator.',
      { page: { button: signInAgainButton } },
    ],
    token_exchange_failed: [
      'The sign-in could not be completed',
      'The identity provider issued no tokens for this sign-in. Sign in again; if it fails again, read the service log.',
      { page: { button: signInAgainButton } },
    ],
    terminal_request_not_valid: [
      'This terminal sign-in is not valid',
      'It is already answered, took longer than ten minutes, began in another browser, or its link is incomplete. Begin again with `oselya chat`.',
    ],
    terminal_code_not_valid: [
      'This code is invalid or has expired',
      'It was used already, is older than a minute, or belongs to another terminal. Begin again with `oselya chat`.',
    ],
    webhook_not_verified: [
      'This webhook is not verified',
      'The signature is missing, out of date, or not made with IDP_WEBHOOK_SECRET. The service log has the reason.',
    ],
    logout_token_not_valid: [
      'This logout token is not valid',
      'It is missing, expired, not signed by the provider, or violates OpenID Connect Back-Channel Logout. The service log has the reason.',
    ],
    malformed_message: ['Malformed message', 'Send a JSON object with a `type`, in a text frame.'],
  }),
  ...defineErrors(401, {
    not_signed_in: [
      'Not signed in',
      'There is no valid session. Sign in at /auth/login.',
      { page: { advice: 'Sign in to see this.', button: signInButton } },
    ],
  }),
  ...defineErrors(403, {
    account_without_email: [
      'This account cannot be used here',
      'The identity provider sends no usable email for it. Ask the operator of the provider to add one, then sign in again.',
      { page: { button: signInAgainButton } },
    ],
    admin_only: ['For administrators only', 'This needs the role `admin`. Ask an administrator.'],
    permission_missing: [
      'Permission missing',
      'Your account lacks the permission for this. Ask an administrator.',
    ],
    cross_site_request: [
      'Request from another site',
      'Only pages of this service can send requests that change something. Send it from there.',
    ],
    image_link_not_valid: [
      'This image link is not valid',
      'It has expired, belongs to another user, or is incomplete. Load the listing again for a new one.',
    ],
    session_not_yours: [
      'The session is not yours',
      'It belongs to another user, or has no owner. Ask an administrator.',
    ],
    board_role_missing: [
      'Your role on the board does not permit this',
      'Ask the owner of the board for another role.',
    ],
    saved_search_not_yours: [
      'The saved search is not yours',
      'It belongs to another user. GET /saved-searches lists yours.',
    ],
  }),
  ...defineErrors(404, {
    backchannel_logout_off: [
      'Back-channel logout is off',
      'It needs the provider’s keys and issuer: set IDP_DISCOVERY=true.',
    ],
    board_not_found: [
      'No such board',
      'It does not exist, has been deleted, or is not shared with you. GET /boards lists yours.',
    ],
    board_item_not_found: [
      'The listing is not on the board',
      'It was never added, or has been removed. GET /boards/{id} lists the listings.',
    ],
    comment_not_found: ['No such comment', 'It does not exist or has been deleted.'],
    api_key_not_found: [
      'No such API key',
      'GET /admin/collector/api-keys lists the keys of the collector.',
    ],
    inventory_not_configured: [
      'There is no inventory here',
      'The operator must set INVENTORY_FILE to the path of the inventory.',
    ],
    raw_not_found: [
      'No such payload',
      'It does not exist or has been removed. GET /admin/collector/raw lists the payloads.',
    ],
    mark_not_found: ['The listing has no mark', 'GET /marks lists your marks.'],
    member_not_found: [
      'Not a member of the board',
      'The user has left or was never added. GET /boards/{id} lists the members.',
    ],
    session_not_found: [
      'No such session',
      'It does not exist or has been deleted. GET /sessions lists yours.',
      { page: { advice: 'It does not exist or has been deleted.' } },
    ],
    file_not_found: [
      'No such file',
      'The session has no file of that name. GET /sessions/{id}/files lists its files.',
      { page: { advice: 'It does not exist or has been deleted.' } },
    ],
    fact_not_found: [
      'No such fact',
      'It does not exist or has been deleted. GET /memory/facts lists yours.',
    ],
    listing_not_found: [
      'No such listing',
      'It does not exist or has been deleted. POST /listings/browse lists all listings.',
    ],
    image_not_found: ['No such image', 'It does not exist or has been deleted.'],
    profile_not_found: [
      'No such profile',
      'GET /profiles lists the available ones.',
      { page: { advice: 'It does not exist or has been deleted.' } },
    ],
    saved_search_not_found: [
      'No such saved search',
      'It does not exist or has been deleted. GET /saved-searches lists yours.',
    ],
    sign_in_not_found: [
      'No such sign-in',
      'It has ended, or is not one of yours. GET /auth/sessions lists yours.',
    ],
    user_not_found: [
      'No such user',
      'No user with this ID has signed in here. GET /admin/users lists the users.',
    ],
  }),
  ...defineErrors(409, {
    memory_full: [
      'The memory is full',
      'Delete a fact that is no longer needed, then send the new fact again.',
    ],
    board_full: ['The board is full', 'Remove something from it, then try again.'],
    board_owner_stays: [
      'The owner stays a member',
      'An owner cannot leave, or get another role. Delete the board instead.',
    ],
    not_retryable: [
      'The payload cannot be retried',
      'Only failed and invalid payloads whose images are still available can be retried.',
    ],
    too_many_boards: [
      'You have too many boards',
      'Delete a board that is no longer needed, then try again.',
    ],
    too_many_marks: [
      'You have marked too many listings',
      'Delete marks that are no longer needed, then try again.',
    ],
    too_many_sessions: [
      'You have too many sessions',
      'Delete a session that is no longer needed, then try again.',
    ],
    too_many_saved_searches: [
      'You have too many saved searches',
      'Delete a search that is no longer needed, then send the new search again.',
    ],
    too_much_stored: [
      'Too much is stored',
      'Delete files that are no longer needed, then send the new file again.',
    ],
    too_many_files: [
      'The session has too many files',
      'Delete a file that is no longer needed, then send the new file again.',
    ],
    turn_running: [
      'An answer is being written',
      'Wait for the answer, or cancel it with `message.cancel`, then send your message again.',
    ],
    no_turn_running: [
      'No answer is being written',
      'The answer is complete: open the session again to see it.',
    ],
    message_name_taken: [
      'Another message has this ID',
      'The session has a message with this `client_message_id` and a different text. Send the new message with a different ID.',
    ],
    nothing_to_retry: [
      'There is nothing to retry',
      'The session has no incomplete answer. Send a new message.',
    ],
    too_many_turns: [
      'Too many answers at once',
      'Wait for an answer in another session, then send your message again.',
    ],
    listing_not_embedded: [
      'Listing not ready for similar search',
      'The listing has no embedding yet. Try again in a few minutes.',
      { canRetry: true },
    ],
    export_running: [
      'Your export is in progress',
      'Wait until it is complete, or cancel it, then try again.',
      { canRetry: true },
    ],
    nothing_to_undo: [
      'There is nothing to undo',
      'It is already undone, or the memory has changed since. GET /memory/facts shows it.',
    ],
    too_many_open: [
      'Too many sessions are open',
      'Close a session with `session.close`, or open the new one on another connection.',
    ],
  }),
  ...defineErrors(413, {
    message_too_long: [
      'The message is too long for the model',
      'It leaves no room for an answer. Send it in parts, or attach it as a text file and ask about that.',
    ],
  }),
  ...defineErrors(422, {
    hand_over_not_valid: [
      'This link is not valid',
      'It hands a sign-in over to the Android application, and its `sid` is missing or malformed. Begin the sign-in in the application again.',
      { page: { advice: 'Go back to the application and sign in again.' } },
    ],
    unknown_message_type: ['Unknown type of message', 'Send a type that docs/protocol.md lists.'],
  }),
  ...defineErrors(426, {
    upgrade_required: [
      'A WebSocket is required',
      'Connect with a WebSocket client: docs/protocol.md describes the messages.',
    ],
  }),
  ...defineErrors(429, {
    too_many_connections: [
      'Too many connections',
      'Your address has the maximum number of open connections. Close some, then try again.',
      { canRetry: true },
    ],
  }),
  ...defineErrors(502, {
    model_failed: [
      'The model failed',
      'Try again with `message.retry`; if it fails again, ask the operator to read the log.',
    ],
    answer_too_long: [
      'The answer was truncated',
      'It reached its length limit. Ask for less at once, or for the rest.',
    ],
  }),
  ...defineErrors(503, {
    model_unavailable: [
      'The model does not respond',
      'Your message is kept. Try again with `message.retry` in a minute.',
      { canRetry: true },
    ],
    collector_unavailable: [
      'Listings are not available',
      'The collector does not respond, or rejects the assistant. Try again in a minute; if it fails again, ask the operator to read the log.',
      { canRetry: true },
    ],
    collector_denied: [
      'The collector denied access',
      'The operator must set COLLECTOR_ADMIN_API_KEY to a key of the collector with the scope `admin`.',
    ],
    sign_in_not_configured: [
      'Sign-in is not configured',
      'The operator must set IDP_CLIENT_ID to the client ID at the identity provider.',
    ],
    provider_unavailable: [
      'The identity provider does not respond',
      'You stay signed in. Wait for the seconds in `Retry-After`, then try again.',
      { canRetry: true, page: { advice: 'You stay signed in. Try again in a few seconds.' } },
    ],
    user_without_email: [
      'The identity provider does not send your email',
      'You stay signed in. Ask the operator of the provider to add a usable email to your account, then try again.',
      { canRetry: true },
    ],
  }),
  ...defineErrors(504, {
    answer_too_slow: [
      'The answer took too long',
      'The part that was written is kept. Try again with `message.retry`, or ask for less at once.',
    ],
  }),
};

export type ErrorCode = keyof typeof errors;

/** Creates the problem for a code in the table. */
export const problem = createProblemFactory(errors);

/** Builds the OpenAPI responses for error codes or statuses. */
export const problemResponses = createProblemResponses(errors);
