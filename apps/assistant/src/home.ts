import { html, renderPage, type Server } from '@oselya/kit';
import { permissions as known, type User } from './access/permissions.ts';
import type { Identity } from './identity/identity.ts';
import { buildPageSchema } from './identity/routes.ts';

/** Registers `/`, the first page. */
export function homeRoute(
  app: Server,
  { identity, baseUrl }: { identity: Identity; baseUrl: string },
): void {
  app.get(
    '/',
    {
      config: { access: 'public', errors: ['provider_unavailable', 'user_without_email'] },
      schema: { hide: true, response: { 200: buildPageSchema('The signed-in user.') } },
    },
    async (request, reply) => {
      const current = await identity.currentUser(request, reply);
      return (
        reply
          .header('cache-control', 'no-store')
          // Without a referrer browsers send `Origin: null` with a form.
          .header('referrer-policy', 'same-origin')
          .type('text/html; charset=utf-8')
          .send(homePage(current?.user, baseUrl))
      );
    },
  );
}

function homePage(user: User | undefined, baseUrl: string): string {
  return renderPage({
    title: 'Assistant',
    body: html`<h1>Oselya</h1>
      ${user === undefined ? signedOut(baseUrl) : details(user)}
      <p><a href="/docs">API documentation</a></p>`,
  });
}

/** Links to the public origin: a sign-in that begins under another name ends there without its cookie. */
function signedOut(baseUrl: string) {
  return html`<p>You are not signed in.</p>
    <p><a class="button" href="${baseUrl}/auth/login">Sign in</a></p>`;
}

function details({ email, display_name, role, permissions }: User) {
  const granted = permissions.filter((slug) => Object.hasOwn(known, slug)).join(', ') || 'none';
  return html`<p>You are signed in as <strong>${display_name ?? email}</strong>.</p>
    <dl>
      <dt>Email</dt>
      <dd>${email}</dd>
      <dt>Role</dt>
      <dd>${role}</dd>
      <dt>Permissions</dt>
      <dd>${role === 'admin' ? 'all, as an admin' : granted}</dd>
    </dl>
    <form method="post" action="/auth/logout?from=page">
      <button id="sign-out">Sign out</button>
    </form>`;
}
