import type { CookieSerializeOptions } from '@fastify/cookie';
import { SIGN_IN_STEP_MINUTES } from '@oselya/kit';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Config } from '../config.ts';
import { isId } from './ids.ts';

const DAY_SECONDS = 24 * 60 * 60;

/**
 * The two cookies of the assistant: the auth session (Specification 000, Cookie), and the browser
 * that is signing in, which lives as long as the step that it is set with. The second is always `SameSite=Lax`: it
 * has to come along when the provider sends the browser back.
 */
export function createCookies(config: Config) {
  const sessionName = config.SVC_AUTH_COOKIE_NAME;
  const browserName = `${sessionName}_login`;
  const common = { path: '/', httpOnly: true, secure: config.SVC_AUTH_COOKIE_SECURE };
  const session: CookieSerializeOptions = { ...common, sameSite: config.SVC_AUTH_COOKIE_SAMESITE };

  return {
    /** Whether a request carries a session cookie, of whatever value. */
    hasSession: ({ cookies }: FastifyRequest) => cookies[sessionName] !== undefined,
    /** The session id of a request; null where there is none or it has not the shape of one. */
    sessionId: (request: FastifyRequest) => read(request, sessionName),
    setSession(reply: FastifyReply, id: string) {
      const maxAge = config.SVC_AUTH_COOKIE_MAX_AGE_DAYS * DAY_SECONDS;
      reply.setCookie(sessionName, id, { ...session, maxAge });
    },
    clearSession(reply: FastifyReply) {
      reply.clearCookie(sessionName, session);
    },
    browserId: (request: FastifyRequest) => read(request, browserName),
    setBrowserId(reply: FastifyReply, id: string) {
      const maxAge = SIGN_IN_STEP_MINUTES * 60;
      reply.setCookie(browserName, id, { ...common, sameSite: 'lax', maxAge });
    },
  };
}

/** A value of another shape than ours counts as none. */
function read({ cookies }: FastifyRequest, name: string): string | null {
  const value = cookies[name];
  return value !== undefined && isId(value) ? value : null;
}
