import { commonErrors, defineProblems, type ErrorDefinition } from '@oselya/kit';

/** Every error that the assistant answers. Contract 2; docs/errors.md is made from this table. */
export const errors = {
  ...commonErrors,
  login_not_valid: {
    status: 400,
    title: 'This sign-in is not valid',
    advice:
      'It was finished before, took longer than ten minutes, or was begun in another browser. Sign in again.',
    retry: false,
  },
  login_refused: {
    status: 400,
    title: 'The identity provider refused the sign-in',
    advice:
      'It was cancelled there, or this account may not sign in. Try again or ask its operator.',
    retry: false,
  },
  token_exchange_failed: {
    status: 400,
    title: 'The sign-in could not be completed',
    advice:
      'The identity provider did not give tokens for this sign-in. Sign in again; if it stays, look in the service log.',
    retry: false,
  },
  not_signed_in: {
    status: 401,
    title: 'Not signed in',
    advice: 'There is no valid session. Sign in at /auth/login.',
    retry: false,
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
  },
} satisfies Record<string, ErrorDefinition>;

/** Builds the assistant's errors. */
export const problem = defineProblems(errors);
