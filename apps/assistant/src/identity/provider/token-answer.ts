/** What an OpenID provider's answer may say beside a plain OAuth provider's. */
export type TokenAnswerRules = { withIdToken: boolean };

/**
 * Takes a token answer (RFC 6749 §5.1) as providers give it in fact, and leaves of it what is used. The
 * refresh token may have been spent for this answer, so nobody loses a session over what is odd beside
 * the tokens: an expiry that is no number of seconds, or null for what is missing, counts as not said;
 * the content type says nothing; `token_type` may be missing (Contract 3 asks for three members only).
 *
 * A plain OAuth provider's ID token is left out: neither the issuer's name nor its algorithms are known
 * to judge it by, and the user's data comes from `userinfo` anyway.
 * @param response Whole, and with a success status. Anything but a token answer is given back as it is.
 */
export async function readTokenAnswer(
  response: Response,
  { withIdToken }: TokenAnswerRules,
): Promise<Response> {
  const text = await response.text();
  const answer = parse(text);
  if (typeof answer !== 'object' || answer === null || !('access_token' in answer)) {
    return new Response(text, { headers: response.headers });
  }
  const said: Record<string, unknown> = { ...answer };
  return Response.json({
    access_token: said['access_token'],
    token_type: said['token_type'] ?? 'bearer',
    refresh_token: said['refresh_token'] ?? undefined,
    expires_in: seconds(said['expires_in']),
    id_token: withIdToken ? (said['id_token'] ?? undefined) : undefined,
  });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Some write the number as a text. */
function seconds(value: unknown): number | undefined {
  const number = typeof value === 'string' ? Number.parseFloat(value) : value;
  return typeof number === 'number' && Number.isFinite(number) && number >= 0 ? number : undefined;
}
