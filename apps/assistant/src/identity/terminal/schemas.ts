import { Type } from 'typebox';
import { ID_PATTERN } from '../ids.ts';

/** 1024 to 65535 in digits alone: as an integer, text of other forms, such as `0x1000`, would be taken too. */
const PORT =
  '^(102[4-9]|10[3-9][0-9]|1[1-9][0-9]{2}|[2-9][0-9]{3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$';

/** What a terminal sends the browser with. RFC 8252 §7.3, RFC 7636 §4.3. */
export const terminalQuery = Type.Object({
  port: Type.String({
    pattern: PORT,
    description: 'Where the terminal listens on 127.0.0.1: 1024 to 65535.',
  }),
  state: Type.String({
    pattern: '^[A-Za-z0-9_-]{22,128}$',
    description: 'Given back with the code.',
  }),
  code_challenge: Type.String({ pattern: '^[A-Za-z0-9_-]{43}$' }),
  code_challenge_method: Type.Literal('S256'),
});

/** Names a sign-in that waits for its person to agree. */
export const requestQuery = Type.Object({
  request: Type.String({ pattern: ID_PATTERN, description: 'Names the sign-in in this browser.' }),
});

/** What a terminal redeems its code with. RFC 7636 §4.5. */
export const tokenBody = Type.Object(
  {
    code: Type.String({ minLength: 1, maxLength: 128 }),
    code_verifier: Type.String({ pattern: '^[A-Za-z0-9._~-]{43,128}$' }),
  },
  {
    additionalProperties: false,
    examples: [
      {
        code: 'nYk3PmG0xT5qLr8vB1cZ7dF2hJ4sW6aE9uQiOoXyKlM',
        code_verifier: 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk',
      },
    ],
  },
);

/** A terminal's session: what it sends as a cookie from then on. */
export const tokenAnswer = Type.Object(
  {
    session_id: Type.String({ description: 'The value of the cookie.' }),
    cookie_name: Type.String({ description: 'The name of the cookie.' }),
  },
  {
    description: 'The terminal is signed in.',
    examples: [
      {
        session_id: 'Zt1xW0b8cQ2mV5kR7nL4pJ9sD3fH6gA_uYeIoTqXwMs',
        cookie_name: 'svc_auth_session',
      },
    ],
  },
);
