/** The longest message, in characters. docs/protocol.md, Messages. */
export const MAX_TEXT_LENGTH = 16_000;
