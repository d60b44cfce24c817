// What the assistant and its terminal, which are apps and know nothing of one another, have to say alike.

/** The longest message of a user in a conversation, in characters. docs/protocol.md, Messages. */
export const MAX_TEXT_LENGTH = 16_000;

/**
 * How long each step of a sign-in waits for its person: at the identity provider, and then, for a terminal, on
 * the page that asks. Contract 3, Login.
 */
export const SIGN_IN_STEP_MINUTES = 10;

/** As many characters as people compare. */
const MARK_LENGTH = 8;

/** What the page and the terminal show of a code challenge, for people to compare. RFC 8252 §8.10. */
export const markOf = (codeChallenge: string): string => codeChallenge.slice(0, MARK_LENGTH);
