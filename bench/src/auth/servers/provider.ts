import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { serveMethods } from '../../process/child.ts';
import { createUser } from '../users.ts';
import { KEEP_ALIVE_MS } from './settings.ts';

export type ProviderSettings = {
  clientId: string;
  /** Response time in milliseconds. */
  answerMs: number;
  /** Lifetime of the access token from a sign-in. Refreshed tokens last an hour. */
  firstTokenSeconds: number;
};

/** Number of requests by purpose. */
const counts = { authorize: 0, code: 0, refresh: 0, userinfo: 0 };

/**
 * Identity provider that follows Contract 3, with a fixed response time and little processor time. Its route
 * `authorize` signs in the user whose index is in the parameter `account`, without a form.
 */
const methods = {
  start,
  counts: () => counts,
};
export type Provider = typeof methods;
serveMethods(methods);

async function start(settings: ProviderSettings): Promise<string> {
  /** Responses of `userinfo`, keyed by code, access token and refresh token. */
  const grants = new Map<string, string>();

  function issue(grant: string, seconds: number) {
    const [access, refresh] = [randomUUID(), randomUUID()];
    grants.set(access, grant).set(refresh, grant);
    return { access_token: access, refresh_token: refresh, expires_in: seconds };
  }

  function redeem(form: URLSearchParams) {
    const isRefresh = form.get('grant_type') === 'refresh_token';
    counts[isRefresh ? 'refresh' : 'code'] += 1;
    const token = form.get(isRefresh ? 'refresh_token' : 'code') ?? '';
    const grant = grants.get(token);
    // Codes and refresh tokens are single-use, so a second redemption fails.
    grants.delete(token);
    return grant && issue(grant, isRefresh ? 3600 : settings.firstTokenSeconds);
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://provider');
    const body = await readBody(request);
    if (settings.answerMs > 0) await sleep(settings.answerMs);
    switch (url.pathname) {
      case '/oauth/authorize': {
        counts.authorize += 1;
        const code = randomUUID();
        grants.set(code, userInfo(Number(url.searchParams.get('account')), settings.clientId));
        const redirectUrl = new URL(url.searchParams.get('redirect_uri') ?? '');
        redirectUrl.searchParams.set('code', code);
        redirectUrl.searchParams.set('state', url.searchParams.get('state') ?? '');
        return void response.writeHead(302, { location: redirectUrl.href }).end();
      }
      case '/oauth/token': {
        const tokens = redeem(new URLSearchParams(body));
        return json(
          response,
          tokens ? 200 : 400,
          JSON.stringify(tokens ?? { error: 'invalid_grant' }),
        );
      }
      case '/oauth/userinfo': {
        counts.userinfo += 1;
        const grant = grants.get(request.headers.authorization?.slice('Bearer '.length) ?? '');
        return json(response, grant ? 200 : 401, grant ?? '{}');
      }
      default:
        return json(response, 404, '{}');
    }
  }

  const server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, (request, response) => {
    handle(request, response).catch((error: unknown) => response.destroy(error as Error));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function userInfo(index: number, clientId: string): string {
  const { id, email, name } = createUser(index);
  return JSON.stringify({
    sub: id,
    email,
    profile: { display_name: name },
    client_access_list: [
      {
        client_id: clientId,
        role_ids: ['svc_user'],
        permission_ids: [
          'svc.profiles.use',
          'svc.sessions.read_own',
          'svc.memory.read_own',
          'svc.tools.use',
        ],
      },
    ],
  });
}

async function readBody(request: IncomingMessage): Promise<string> {
  let body = '';
  for await (const chunk of request) body += String(chunk);
  return body;
}

function json(response: ServerResponse, status: number, body: string): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(body);
}
