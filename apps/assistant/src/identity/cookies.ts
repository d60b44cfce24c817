import { randomBytes } from 'node:crypto';
import type { CookieSerializeOptions } from '@fastify/cookie';
import { SIGN_IN_STEP_MINUTES } from '@oselya/kit';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Config } from '../config.ts';

const DAY_SECONDS = 24 * 60 * 60;

/** Pattern of an ID, which needs no escaping in HTML, URLs or cookies. */
export const ID_PATTERN = '^[A-Za-z0-9_-]{43}$';

const idRegExp = new RegExp(ID_PATTERN);

/** Creates a random ID: 32 bytes as base64url. Contract 3, Auth session. */
export function createRandomId(): string {
  return randomBytes(32).toString('base64url');
}

/** Returns whether text is a well-formed ID. */
export function isId(text: string | undefined): text is string {
  return text !== undefined && idRegExp.test(text);
}

/**
 * Creates the accessors of two cookies: the auth session (Specification 000, Cookie) and the browser during a sign-in.
 * The latter is always `SameSite=Lax`, because the browser must send it when the provider redirects back.
 */
export function createCookies(config: Config) {
  const sessionName = config.SVC_AUTH_COOKIE_NAME;
  const browserName = `${sessionName}_login`;
  const commonOptions = { path: '/', httpOnly: true, secure: config.SVC_AUTH_COOKIE_SECURE };
  const sessionOptions: CookieSerializeOptions = {
    ...commonOptions,
    sameSite: config.SVC_AUTH_COOKIE_SAMESITE,
  };

  return {
    /** Returns whether a request carries a session cookie, well-formed or not. */
    hasSession: ({ cookies }: FastifyRequest) => cookies[sessionName] !== undefined,
    /** Returns the auth session ID of a request, or null if it is missing or malformed. */
    sessionId: (request: FastifyRequest) => readId(request, sessionName),
    setSession(reply: FastifyReply, id: string) {
      const maxAge = config.SVC_AUTH_COOKIE_MAX_AGE_DAYS * DAY_SECONDS;
      reply.setCookie(sessionName, id, { ...sessionOptions, maxAge });
    },
    clearSession(reply: FastifyReply) {
      reply.clearCookie(sessionName, sessionOptions);
    },
    browserId: (request: FastifyRequest) => readId(request, browserName),
    setBrowserId(reply: FastifyReply, id: string) {
      const maxAge = SIGN_IN_STEP_MINUTES * 60;
      reply.setCookie(browserName, id, { ...commonOptions, sameSite: 'lax', maxAge });
    },
  };
}

function readId({ cookies }: FastifyRequest, name: string): string | null {
  const value = cookies[name];
  return isId(value) ? value : null;
}
