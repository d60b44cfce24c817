/**
 * Time limit for each step of a sign-in: at the identity provider and, for a terminal, on the confirmation page.
 * Contract 3, Login.
 */
export const SIGN_IN_STEP_MINUTES = 10;

/** Number of characters that people can easily compare. */
const SHORT_CHALLENGE_LENGTH = 8;

/** Returns the beginning of a code challenge. Users compare it on the page and in the terminal. RFC 8252 §8.10. */
export const shortenCodeChallenge = (codeChallenge: string): string =>
  codeChallenge.slice(0, SHORT_CHALLENGE_LENGTH);
