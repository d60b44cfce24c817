/** What a line of JSON Lines is, without its end, when it holds no record. */
export const BLANK_LINE = /^[ \t\r]*$/;
